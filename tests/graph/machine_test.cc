#include "graph/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_replace.h"
#include "graph/strings.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// Two nodes of 8 GPUs and a CPU, then one of 4 GPUs (two of each kind).
constexpr char kCluster[] = R"({
  "format": "millrace-machine", "version": "1.0", "name": "cluster",
  "devices": [
    {"name": "big", "kind": "cuda", "memory_bytes": 80000000000, "memory_bandwidth": 3.35e12,
     "peak_flops": {"f32": 6.7e13, "bf16": 9.9e14}, "launch_overhead_us": 2.5, "copy_engines": 3,
     "arch": "sm_90", "model": "a big one"},
    {"name": "small", "kind": "cuda", "memory_bytes": 16000000000, "memory_bandwidth": 3e11,
     "peak_flops": {"f32": 8e12}},
    {"name": "host", "kind": "cpu", "memory_bytes": 64000000000, "memory_bandwidth": 2e11,
     "peak_flops": {"f32": 1e12}, "threads": 16}],
  "nodes": [
    {"count": 2, "devices": [{"name": "big", "count": 8}, {"name": "host"}],
     "host_memory_bytes": 512000000000, "host_memory_bandwidth": 2e11,
     "host_link": {"bandwidth": 5.5e10, "latency_us": 5},
     "peer_link": {"bandwidth": 4.5e11, "latency_us": 2, "full_duplex": false}},
    {"devices": [{"name": "small", "count": 2}, {"name": "big", "count": 2}],
     "host_link": {"bandwidth": 1e10, "latency_us": 5}, "peer_link": {"bandwidth": 1e10, "latency_us": 5}}],
  "network": {"bandwidth": 5e10, "latency_us": 4.5},
  "file_bandwidth": 3e9
})";

MachineSpec Cluster() {
  absl::StatusOr<MachineSpec> machine = ParseMachine(kCluster, "cluster.json");
  EXPECT_TRUE(machine.ok()) << machine.status();
  return *std::move(machine);
}

// The errors of the cluster with one text replaced.
std::string ErrorsWith(std::string_view from, std::string_view to) {
  const std::string json = absl::StrReplaceAll(kCluster, {{AbslView(from), AbslView(to)}});
  EXPECT_NE(json, kCluster) << from;
  const absl::StatusOr<MachineSpec> machine = ParseMachine(json, "m.json");
  EXPECT_EQ(ExitCode(machine.status()), 3) << machine.status();
  return std::string(machine.status().message());
}

TEST(MachineTest, ReadsAllFields) {
  const MachineSpec m = Cluster();
  EXPECT_EQ(m.name, "cluster");
  ASSERT_EQ(m.devices.size(), 3u);
  const DeviceSpec& big = m.devices[0];
  EXPECT_EQ(big.kind, "cuda");
  EXPECT_EQ(big.model, "a big one");
  EXPECT_EQ(big.arch, "sm_90");
  EXPECT_EQ(big.memory_bytes, 80000000000);
  EXPECT_EQ(big.memory_bandwidth, 3.35e12);
  EXPECT_EQ(big.peak_flops.at(DType::kBF16), 9.9e14);
  EXPECT_EQ(big.launch_overhead_us, 2.5);
  EXPECT_EQ(big.copy_engines, 3);
  EXPECT_EQ(m.devices[2].threads, 16);
  EXPECT_EQ(m.nodes[0].count, 2);
  EXPECT_EQ(m.nodes[0].devices[1], std::pair(std::string("host"), int64_t{1}));
  EXPECT_EQ(m.nodes[0].host_memory_bytes, 512000000000);
  EXPECT_FALSE(m.nodes[0].peer_link.full_duplex);
  EXPECT_EQ(m.network.latency_us, 4.5);
  EXPECT_EQ(m.file_bandwidth, 3e9);
}

TEST(MachineTest, WritingIsCanonicalAndLosesNothing) {
  const std::string json = MachineToJson(Cluster());
  const absl::StatusOr<MachineSpec> again = ParseMachine(json, "again.json");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(MachineToJson(*again), json);
  EXPECT_EQ(again->nodes[0].devices, Cluster().nodes[0].devices);
  EXPECT_EQ(again->devices[0].peak_flops, Cluster().devices[0].peak_flops);
  EXPECT_EQ(again->nodes[1].host_link.bandwidth, 1e10);
}

TEST(MachineTest, DevicesAreNumberedByKindOverAllNodes) {
  const MachineSpec m = Cluster();
  EXPECT_EQ(CountDevices(m, "cuda"), 20);
  EXPECT_EQ(CountDevices(m, "cpu"), 2);
  const struct {
    const char* kind;
    int64_t index;
    const char* spec;
    int64_t node;
  } expected[] = {{"cuda", 0, "big", 0},    {"cuda", 7, "big", 0},    {"cuda", 8, "big", 1},
                  {"cuda", 16, "small", 2}, {"cuda", 17, "small", 2}, {"cuda", 18, "big", 2},
                  {"cuda", 19, "big", 2},   {"cpu", 0, "host", 0},    {"cpu", 1, "host", 1}};
  for (const auto& e : expected) {
    const absl::StatusOr<DeviceLocation> found = FindDevice(m, e.kind, e.index);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->spec->name, e.spec) << e.kind << e.index;
    EXPECT_EQ(found->node, e.node) << e.kind << e.index;
    EXPECT_EQ(found->index, e.index);
  }
}

TEST(MachineTest, AMissingDeviceIsToldWhatThereIs) {
  const MachineSpec m = Cluster();
  EXPECT_EQ(StdView(FindDevice(m, "cuda", 20).status().message()),
            "machine 'cluster' has no device cuda:20; it has 20 cuda (cuda:0 to cuda:19), 2 cpu "
            "(cpu:0 to cpu:1)");
  EXPECT_FALSE(FindDevice(m, "cpu", -1).ok());
  EXPECT_FALSE(FindDevice(m, "tpu", 0).ok());
}

TEST(MachineTest, DeviceNames) {
  EXPECT_EQ(*ParseDeviceName("cuda:3"), std::pair(std::string("cuda"), int64_t{3}));
  EXPECT_EQ(*ParseDeviceName("cpu"), std::pair(std::string("cpu"), int64_t{0}));
  for (const char* bad : {"", ":1", "cuda:", "cuda:-1", "cuda:+1", "cuda:1x", "CUDA:0", "cuda:0:1",
                          "cuda:99999999999"}) {
    EXPECT_EQ(ExitCode(ParseDeviceName(bad).status()), 2) << bad;
  }
}

TEST(MachineTest, FaultsNameTheirPlaceAndWhatWouldDo) {
  EXPECT_EQ(ErrorsWith("\"name\": \"small\", \"count\"", "\"name\": \"smal\", \"count\""),
            "m.json:16:27: /nodes/1/devices/0/name: device 'smal' is not described; did you mean "
            "'small'?");
  EXPECT_THAT(ErrorsWith("\"memory_bandwidth\": 3e11", "\"memory_bandwidth\": 0"),
              HasSubstr("/devices/1/memory_bandwidth: not a rate; expected more than 0 bytes/s"));
  EXPECT_THAT(ErrorsWith("\"name\": \"host\", \"kind\"", "\"name\": \"big\", \"kind\""),
              HasSubstr("/devices/2/name: device 'big' is described twice"));
  EXPECT_THAT(ErrorsWith("\"count\": 2, \"dev", "\"count\": 0, \"dev"),
              HasSubstr("/nodes/0/count: out of range; expected 1 to 1048576, found 0"));
  EXPECT_THAT(ErrorsWith("\"kind\": \"cpu\"", "\"kind\": \"tpu\""),
              HasSubstr("/devices/2/kind: unknown kind 'tpu'"));
  EXPECT_THAT(ErrorsWith("\"f32\": 1e12", "\"f33\": 1e12"), HasSubstr("unknown dtype 'f33'"));
  EXPECT_THAT(ErrorsWith("\"f32\": 1e12", "\"f32\": \"inf\""), HasSubstr("/peak_flops/f32"));
  EXPECT_THAT(ErrorsWith("\"network\"", "\"netwrok\""), HasSubstr("did you mean 'network'?"));
  EXPECT_THAT(ErrorsWith("\"network\"", "\"x-network\""),
              HasSubstr("/network: no bandwidth is given; expected one, because of several nodes"));
  EXPECT_THAT(ErrorsWith("\"threads\": 16", "\"threads\": 1.5"), HasSubstr("found number 1.5"));
  EXPECT_THAT(ErrorsWith("\"1.0\"", "\"2.0\""), HasSubstr("version 2.0"));
}

TEST(MachineTest, AllFaultsAreReportedAtOnce) {
  const std::string errors = ErrorsWith("\"memory_bytes\": ", "\"memory_byte\": ");
  EXPECT_THAT(errors, HasSubstr("/devices/0: key \"memory_bytes\" is missing"));
  EXPECT_THAT(errors, HasSubstr("/devices/2: key \"memory_bytes\" is missing"));
  EXPECT_THAT(errors, HasSubstr("did you mean 'memory_bytes'?"));
}

TEST(MachineTest, ANodeWithOneCpuNeedsNoLinks) {
  MachineSpec m;
  m.name = "laptop";
  DeviceSpec& core = m.devices.emplace_back();
  core.name = "core";
  core.kind = "cpu";
  core.memory_bytes = 1 << 30;
  core.memory_bandwidth = 1e10;
  core.peak_flops = {{DType::kF32, 1e11}};
  m.nodes.emplace_back().devices = {{"core", 1}};
  Diagnostics diagnostics;
  VerifyMachine(m, diagnostics);
  EXPECT_TRUE(diagnostics.ok()) << diagnostics.ToStatus();
  EXPECT_TRUE(ParseMachine(MachineToJson(m), "").ok());
}

TEST(MachineTest, TextForPeople) {
  EXPECT_EQ(ToText(Cluster()),
            "machine 'cluster': 20 cuda (cuda:0 to cuda:19), 2 cpu (cpu:0 to cpu:1)\n"
            "  cuda 'big' sm_90: 74.51 GiB at 3350 GB/s; bf16 990 TFLOP/s, f32 67 "
            "TFLOP/s; launch 2.5 us; 3 copy engines\n"
            "  cuda 'small': 14.9 GiB at 300 GB/s; f32 8 TFLOP/s; launch 0 us; 1 copy engines\n"
            "  cpu 'host': 59.6 GiB at 200 GB/s; f32 1 TFLOP/s; launch 0 us; 16 threads\n"
            "  2 nodes of 8 big, 1 host; host memory 476.8 GiB; to host 55 GB/s 5 us; between "
            "devices 450 GB/s 2 us half duplex\n"
            "  1 node of 2 small, 2 big; host memory 0 B; to host 10 GB/s 5 us; between devices 10 "
            "GB/s 5 us\n"
            "  network 50 GB/s 4.5 us; file 3 GB/s\n");
}

}  // namespace
}  // namespace millrace
