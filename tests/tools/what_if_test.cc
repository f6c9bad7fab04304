// Amounts with units, and machines with something changed.
#include "tools/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/strings.h"
#include "tests/tools/run_millrace.h"
#include "tools/quantity.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(Quantity, UnitsAndPrefixes) {
  const struct {
    const char* text;
    const char* unit;
    double value;
  } cases[] = {{"40GiB", "B", 40.0 * (1 << 30)},
               {"1.5 GB", "B", 1.5e9},
               {"512", "B", 512},
               {"512B", "B", 512},
               {"4KiB", "B", 4096},
               {"4kB", "B", 4000},
               {"900GB/s", "B/s", 9e11},
               {"3.35TB/s", "B/s", 3.35e12},
               {"1e3MB/s", "B/s", 1e9},
               {"60TFLOP/s", "FLOP/s", 6e13},
               {"2.5us", "us", 2.5},
               {"800ns", "us", 0.8},
               {"2ms", "us", 2000},
               {"1s", "us", 1e6},
               {"0us", "us", 0}};
  for (const auto& c : cases) {
    const absl::StatusOr<double> value = ParseQuantity(c.text, c.unit);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_DOUBLE_EQ(*value, c.value) << c.text;
  }
}

TEST(Quantity, WhatIsNone) {
  for (const auto& [text, unit] : std::vector<std::pair<const char*, const char*>>{{"", "B"},
                                                                                   {"GiB", "B"},
                                                                                   {"-1GiB", "B"},
                                                                                   {"1GiG", "B"},
                                                                                   {"1GiB/s", "B"},
                                                                                   {"1", "us"},
                                                                                   {"1m", "us"},
                                                                                   {"nanGB", "B"},
                                                                                   {"infB", "B"},
                                                                                   {"1e999GB", "B"},
                                                                                   {"1 2GB", "B"},
                                                                                   {"0x10B", "B"},
                                                                                   {"5", "B/s"},
                                                                                   {"5XB/s", "B/s"},
                                                                                   {"1e", "B"}}) {
    const absl::StatusOr<double> value = ParseQuantity(text, unit);
    EXPECT_EQ(ExitCode(value.status()), 2) << text;
  }
  EXPECT_EQ(StdView(ParseQuantity("5parsecs", "us").status().message()),
            "'5parsecs' is no amount; expected one like 2.5us");
}

MachineSpec Dgx() {
  absl::StatusOr<MachineSpec> machine = LoadMachine(SourceFile("tools/machines/dgx-a100.json"));
  EXPECT_TRUE(machine.ok()) << machine.status();
  return *std::move(machine);
}

MachineSpec Varied(const char* text) {
  absl::StatusOr<MachineSpec> machine = VaryMachine(Dgx(), text);
  EXPECT_TRUE(machine.ok()) << machine.status();
  return machine.ok() ? *std::move(machine) : MachineSpec();
}

TEST(WhatIf, FactorsAndAmounts) {
  const MachineSpec before = Dgx();
  EXPECT_DOUBLE_EQ(Varied("bandwidth=2x").devices[0].memory_bandwidth,
                   2 * before.devices[0].memory_bandwidth);
  EXPECT_EQ(Varied("memory=40GiB").devices[0].memory_bytes, int64_t{40} << 30);
  EXPECT_EQ(Varied("memory=0.5x").devices[0].memory_bytes, int64_t{40} << 30);
  const MachineSpec faster = Varied("compute=2x,launch=1us,peer-link=450GB/s");
  EXPECT_DOUBLE_EQ(faster.devices[0].peak_flops.at(DType::kBF16),
                   2 * before.devices[0].peak_flops.at(DType::kBF16));
  EXPECT_DOUBLE_EQ(faster.devices[0].launch_overhead_us, 1);
  EXPECT_DOUBLE_EQ(faster.nodes[0].peer_link.bandwidth, 4.5e11);
  EXPECT_DOUBLE_EQ(faster.devices[0].memory_bandwidth, before.devices[0].memory_bandwidth);
  EXPECT_DOUBLE_EQ(Varied("network=100GB/s").network.bandwidth, 1e11);
  EXPECT_DOUBLE_EQ(Varied("host-link=2x").nodes[0].host_link.bandwidth,
                   2 * before.nodes[0].host_link.bandwidth);
  const MachineSpec quick = Varied("latency=0us");
  EXPECT_DOUBLE_EQ(quick.network.latency_us, 0);
  EXPECT_DOUBLE_EQ(quick.nodes[0].peer_link.latency_us, 0);
  EXPECT_DOUBLE_EQ(Varied("file=8GB/s").file_bandwidth, 8e9);
}

TEST(WhatIf, FaultsSayWhatWouldDo) {
  const auto error = [](const char* text) {
    const absl::Status status = VaryMachine(Dgx(), text).status();
    EXPECT_EQ(ExitCode(status), 2) << text;
    return std::string(status.message());
  };
  EXPECT_EQ(error("bandwith=2x"),
            "--what-if bandwith=2x: unknown key 'bandwith'; did you mean 'bandwidth'?");
  EXPECT_THAT(error("speed=2x"), HasSubstr("there are: memory, bandwidth, compute"));
  EXPECT_THAT(error("bandwidth"), HasSubstr("'bandwidth' has no value; expected bandwidth=2x"));
  EXPECT_THAT(error("memory=40Gib"), HasSubstr("'40Gib' is no amount; expected one like 40GiB"));
  EXPECT_THAT(error("bandwidth=0x"), HasSubstr("'0x' is no factor"));
  EXPECT_THAT(error("bandwidth=-1x"), HasSubstr("'-1x' is no factor"));
  EXPECT_THAT(error("bandwidth=0B/s"), HasSubstr("not a rate"));
  EXPECT_THAT(error("memory=0"), HasSubstr("out of range"));
  EXPECT_THAT(error("bandwidth=2x,,launch=1us"), HasSubstr("unknown key ''"));
}

}  // namespace
}  // namespace millrace
