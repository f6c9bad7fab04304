// Bytes that are no protobuf message, or one that would fill the memory: refused with the place,
// before protobuf sees them.
#include "ops/onnx/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/strings.h"
#include "tests/onnx/onnx_text.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// A field with a length, spelled by hand: protobuf does not write what is wrong.
std::string Bytes(int field, std::string_view bytes) {
  std::string text(1, static_cast<char>(field << 3 | 2));
  size_t length = bytes.size();
  for (; length >= 0x80; length >>= 7) text.push_back(static_cast<char>(length | 0x80));
  text.push_back(static_cast<char>(length));
  return StrCat(text, bytes);
}

// Field numbers: of a model, a graph, a node, an attribute.
constexpr int kGraph = 7, kNode = 1, kInput = 1, kAttribute = 5, kBody = 6;

TEST(Wire, LengthsPastTheEnd) {
  EXPECT_EQ(ImportError(Bytes(kGraph, "\x0a\x7f")),
            "m.onnx:byte 2: /graph: field 1 of 127 bytes runs past the end: 0 bytes are left");
  EXPECT_EQ(ImportError(Bytes(kGraph, Bytes(kNode,
                                            "\x0a\x05"
                                            "ab"))),
            "m.onnx:byte 4: /graph/node/0: field 1 of 5 bytes runs past the end: 2 bytes are left");
  // 2^63 - 1 bytes.
  EXPECT_THAT(ImportError("\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
              StartsWith("m.onnx:byte 0: field 7 of 9223372036854775807 bytes runs past the end"));
}

TEST(Wire, NumbersThatDoNotEnd) {
  EXPECT_EQ(ImportError("\x08\x80"), "m.onnx:byte 0: the data end in the middle of a number");
  EXPECT_EQ(ImportError("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),
            "m.onnx:byte 0: a number is longer than 10 bytes");
}

TEST(Wire, KeysThatAreNone) {
  EXPECT_EQ(ImportError(std::string_view("\x00\x00", 2)),
            "m.onnx:byte 0: no field has the number 0");
  EXPECT_EQ(ImportError("{\"format\": \"millrace-graph\"}"),
            "m.onnx:byte 0: field 15 has wire type 3, which ONNX does not use");
  EXPECT_EQ(ImportError("\x38\x01"),  // the graph, as a number
            "m.onnx:byte 0: /graph: wire type 0 does not fit a field of type message");
}

// An attribute holds a graph, which holds a node, which holds an attribute ...
TEST(Wire, MessagesNestedTooDeep) {
  std::string graph;
  for (int i = 0; i < 80; ++i) graph = Bytes(kNode, Bytes(kAttribute, Bytes(kBody, graph)));
  EXPECT_THAT(ImportError(Bytes(kGraph, graph)), HasSubstr("messages nest more than 200 deep"));
}

// 2 bytes in a file, some 200 in memory: 600,000 nodes without anything in them.
TEST(Wire, EmptyMessagesThatWouldFillTheMemory) {
  std::string graph;
  for (int i = 0; i < 600'000; ++i) graph += std::string("\x0a\x00", 2);
  EXPECT_THAT(ImportError(Bytes(kGraph, graph)), HasSubstr("nearly all of them are empty"));
}

TEST(Wire, OffsetsOfMessages) {
  const std::string bytes =
      Bytes(8, "xyz") + Bytes(kGraph, Bytes(kNode, "") + Bytes(kNode, Bytes(kInput, "a")));
  const auto offset = [&](std::vector<WireStep> path) { return OffsetOf(bytes, path); };
  EXPECT_EQ(offset({}), 0);
  EXPECT_EQ(offset({{kGraph, 0}}), 7);
  EXPECT_EQ(offset({{kGraph, 0}, {kNode, 0}}), 9);
  EXPECT_EQ(offset({{kGraph, 0}, {kNode, 1}}), 11);
  EXPECT_EQ(offset({{kGraph, 0}, {kNode, 2}}), -1);
  EXPECT_EQ(offset({{kGraph, 1}}), -1);
}

// Every prefix of a model is refused, each without a crash.
TEST(Wire, TruncatedAnywhere) {
  const std::string bytes =
      ModelOf("g (float[2,3] x) => (float[2,3] y) { t = Relu(x) y = Exp(t) }").SerializeAsString();
  int refused = 0;
  for (size_t size = 0; size < bytes.size(); ++size) {
    refused += ImportError(std::string_view(bytes).substr(0, size)) != "imported";
  }
  // Where a field of the model ends, what is left out is what follows: the graph, or the opsets.
  EXPECT_GE(refused, static_cast<int>(bytes.size()) - 3);
  EXPECT_EQ(ImportError(bytes), "imported");
}

// No byte that changes leads to a crash.
TEST(Wire, OneByteWrong) {
  std::string bytes =
      ModelOf("g (float[2,3] x) => (float[2,3] y) { t = Relu(x) y = Flatten <axis = 1> (t) }")
          .SerializeAsString();
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int change : {0x01, 0x80, 0x7f}) {
      bytes[i] ^= change;
      const absl::StatusOr<Graph> graph = ParseOnnx(bytes, "m.onnx");
      if (!graph.ok()) {
        EXPECT_THAT(ExitCode(graph.status()), testing::AnyOf(2, 3)) << graph.status();
      }
      bytes[i] ^= change;
    }
  }
}

}  // namespace
}  // namespace millrace
