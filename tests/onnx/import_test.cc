// What becomes of a model's parts: inputs, initializers, symbols, nested graphs, functions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/strings.h"
#include "tests/onnx/onnx_text.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Lines(std::initializer_list<std::string_view> lines) {
  std::string text;
  for (const std::string_view line : lines) StrAppend(&text, line, "\n");
  return text;
}

void AddInitializer(onnx::GraphProto& graph, const std::string& name, std::vector<float> values) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(std::ssize(values));
  tensor.mutable_float_data()->Add(values.begin(), values.end());
}

std::vector<std::string> Names(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<std::string> names;
  for (const ValueId id : ids) names.push_back(graph.value(id).name);
  return names;
}

// --- Initializers ------------------------------------------------------------------------------

TEST(OnnxImport, FloatsAreWeightsOthersConstants) {
  onnx::ModelProto model =
      ModelOf("g (float[2,3] x) => (y) { h = Add(x, w) y = Reshape(h, shape) }");
  AddInitializer(*model.mutable_graph(), "w", {1, 2, 3});
  onnx::TensorProto& shape = *model.mutable_graph()->add_initializer();
  shape.set_name("shape");
  shape.set_data_type(onnx::TensorProto::INT64);
  shape.add_dims(1);
  shape.add_int64_data(-1);
  const absl::StatusOr<Graph> graph = Import(model);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Names(*graph, graph->params), testing::ElementsAre("w"));
  EXPECT_TRUE(graph->value(graph->params[0]).trainable);
  EXPECT_THAT(Names(*graph, graph->constants), testing::ElementsAre("shape"));
}

// Before IR version 4 every initializer had to be an input too; since then it is a default.
TEST(OnnxImport, InitializersThatAreInputs) {
  onnx::ModelProto model = ModelOf("g (float[2,3] x, float[3] w) => (y) { y = Add(x, w) }");
  AddInitializer(*model.mutable_graph(), "w", {1, 2, 3});
  const absl::StatusOr<Graph> graph = Import(model);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Names(*graph, graph->inputs), testing::ElementsAre("x"));
  EXPECT_THAT(Names(*graph, graph->params), testing::ElementsAre("w"));
}

TEST(OnnxImport, WhatNothingReads) {
  onnx::ModelProto model =
      ModelOf("g (float[2,3] x, float[7] unused) => (y) { y = Relu(x) z = Exp(x) }");
  AddInitializer(*model.mutable_graph(), "w", {1, 2, 3});
  const absl::StatusOr<Graph> graph = Import(model);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Names(*graph, graph->inputs), testing::ElementsAre("x", "unused"));
  EXPECT_TRUE(graph->params.empty());  // but it would have been refused if it were wrong
  model.mutable_graph()->mutable_initializer(0)->add_dims(2);
  EXPECT_THAT(ImportError(model),
              HasSubstr("/graph/initializer/0: initializer 'w': float_data does not fit"));
}

TEST(OnnxImport, SparseInitializers) {
  onnx::ModelProto model = ModelOf("g (float[4] x) => (y) { y = Add(x, w) }");
  onnx::SparseTensorProto& sparse = *model.mutable_graph()->add_sparse_initializer();
  sparse.add_dims(4);
  sparse.mutable_values()->set_name("w");
  sparse.mutable_values()->set_data_type(onnx::TensorProto::FLOAT);
  sparse.mutable_values()->add_dims(1);
  sparse.mutable_values()->add_float_data(5);
  sparse.mutable_indices()->set_data_type(onnx::TensorProto::INT64);
  sparse.mutable_indices()->add_dims(1);
  sparse.mutable_indices()->add_int64_data(2);
  const absl::StatusOr<Graph> graph = Import(model);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->data_of(graph->params[0]).tensor.AsDouble(2), 5);
}

TEST(OnnxImport, ConstantNodesAreConstants) {
  EXPECT_EQ(ImportedText("g (float[2] x) => (y) {\n"
                         "  k = Constant <value = float[2] {1, 2}> ()\n"
                         "  f = Constant <value_float = 3.0> ()\n"
                         "  n = Constant <value_ints = [2]> ()\n"
                         "  a = Add(x, k)  b = Add(a, f)  y = Reshape(b, n)\n}"),
            Lines({"input x : f32[2]", "const k : f32[2] = inline [1.0, 2.0]",
                   "const f : f32[] = inline [3.0]", "const n : i64[1] = inline [2]",
                   "a : f32[2] = Add(x, k)", "b : f32[2] = Add(a, f)", "y : f32[2] = Reshape(b, n)",
                   "output y"}));
}

// --- Names and order ---------------------------------------------------------------------------

TEST(OnnxImport, NodesInAnyOrder) {
  EXPECT_EQ(ImportedText("g (float[2] x) => (y) { y = Exp(b) b = Relu(a) a = Neg(x) }"),
            Lines({"input x : f32[2]", "a : f32[2] = Neg(x)", "b : f32[2] = Relu(a)",
                   "y : f32[2] = Exp(b)", "output y"}));
}

TEST(OnnxImport, Cycles) {
  EXPECT_EQ(ImportError(ModelOf("g (float[2] x) => (y) { a = Add(x, b) b = Relu(a) y = Exp(b) }")),
            "m.onnx:byte 4: /graph: nodes wait for each other: 'a' <- 'b' <- 'a'");
}

TEST(OnnxImport, NamesThatAreNotThere) {
  EXPECT_EQ(ImportError(ModelOf("g (float[2] image) => (y) { y = Relu(imgae) }")),
            "m.onnx:byte 6: /graph/node/0: there is no value 'imgae'; did you mean 'image'?");
  EXPECT_THAT(ImportError(ModelOf("g (float[2] x) => (z) { y = Relu(x) }")),
              HasSubstr("/graph/output/0: there is no value 'z'"));
}

TEST(OnnxImport, NamesDefinedTwice) {
  EXPECT_THAT(ImportError(ModelOf("g (float[2] x) => (y) { y = Relu(x) y = Exp(x) }")),
              HasSubstr("/graph/node/1: 'y' is defined twice"));
  EXPECT_THAT(ImportError(ModelOf("g (float[2] x, float[2] x) => (y) { y = Relu(x) }")),
              HasSubstr("/graph/input/1: 'x' is defined twice"));
}

TEST(OnnxImport, OneValueAsTwoOutputs) {
  EXPECT_EQ(ImportedText("g (float[2] x) => (y, y) { y = Relu(x) }"),
            Lines({"input x : f32[2]", "y : f32[2] = Relu(x)", "identity : f32[2] = Identity(y)",
                   "output y", "output identity"}));
}

// --- Types and symbols -------------------------------------------------------------------------

TEST(OnnxImport, DynamicDimsAreSymbols) {
  EXPECT_EQ(ImportedText("g (float[batch,3,N] x, float[batch,1,1] z) => (y) { y = Add(x, z) }", 17,
                         {.symbols = {{"batch", 2}, {"N", 5}}}),
            Lines({"symbol batch = 2 min 0 max 281474976710656",
                   "symbol N = 5 min 0 max 281474976710656", "input x : f32[2,3,5]",
                   "input z : f32[2,1,1]", "y : f32[2,3,5] = Add(x, z)", "output y",
                   "dims x = [\"batch\", \"3\", \"N\"]", "dims z = [\"batch\", \"1\", \"1\"]"}));
}

TEST(OnnxImport, SymbolsWithoutAValue) {
  const onnx::ModelProto model = ModelOf("g (float[batch,3] x) => (y) { y = Relu(x) }");
  const absl::StatusOr<Graph> graph = Import(model);
  EXPECT_EQ(ExitCode(graph.status()), 2);
  EXPECT_EQ(graph.status().message(),
            "m.onnx: symbol 'batch' has no value; give one with --set batch=...");
  const absl::StatusOr<Graph> wrong = Import(model, {.symbols = {{"batsh", 2}}});
  EXPECT_THAT(std::string(wrong.status().message()),
              HasSubstr("the model has no symbol 'batsh'; did you mean 'batch'?"));
  const absl::StatusOr<Graph> negative = Import(model, {.symbols = {{"batch", -2}}});
  EXPECT_THAT(std::string(negative.status().message()), HasSubstr("is out of range"));
}

TEST(OnnxImport, SymbolsMayStayOpen) {
  const absl::StatusOr<Graph> graph =
      Import(ModelOf("g (float[batch,3] x) => (y) { y = Relu(x) }"), {.allow_open_symbols = true});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->symbolic_dims.at(graph->inputs[0])[0], "batch");
  // What nothing can be done about is told first.
  EXPECT_THAT(ImportError(ModelOf("g (float[batch,3] x) => (y) { y = Frobnicate(x) }")),
              HasSubstr("1 op is not supported: Frobnicate x1"));
  EXPECT_FALSE(graph->value(graph->outputs[0]).typed);
}

TEST(OnnxImport, NamesOfDimsThatNoSymbolCanHave) {
  onnx::ModelProto model = ModelOf("g (float[a,b,c] x) => (y) { y = Relu(x) }");
  auto& dims = *model.mutable_graph()
                    ->mutable_input(0)
                    ->mutable_type()
                    ->mutable_tensor_type()
                    ->mutable_shape();
  dims.mutable_dim(0)->set_dim_param("batch size");
  dims.mutable_dim(1)->set_dim_param("2n");
  dims.mutable_dim(2)->set_dim_param("?");
  const absl::StatusOr<Graph> graph = Import(model, {.allow_open_symbols = true});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->symbolic_dims.at(graph->inputs[0]),
              testing::ElementsAre("batch_size", "n2n", "x_2"));
}

TEST(OnnxImport, InputsThatAreConstantsWhilePlanning) {
  const std::string text = "g (float[6] x, int64[K] shape) => (y) { y = Reshape(x, shape) }";
  EXPECT_THAT(ImportedText(text, 17, {.symbols = {{"K", 2}}}),
              HasSubstr("'shape' must be known while planning, but it depends on input 'shape'"));
  // Its dims are those of the constant.
  EXPECT_THAT(ImportedText(text, 17, {.constants = {{"shape", Tensor::Of<int64_t>({2}, {2, 3})}}}),
              HasSubstr("y : f32[2,3] = Reshape(x, shape)"));
  EXPECT_THAT(ImportedText(text, 17, {.constants = {{"shape", Tensor::Of<float>({2}, {2, 3})}}}),
              HasSubstr("input 'shape' is i64[2], but was given a constant of f32[2]"));
  EXPECT_THAT(ImportedText(text, 17,
                           {.symbols = {{"K", 1}},
                            .constants = {{"shape", Tensor::Of<int64_t>({2}, {2, 3})}}}),
              HasSubstr("input 'shape' is i64[1], but was given a constant of i64[2]"));
  EXPECT_THAT(ImportedText(text, 17, {.constants = {{"shap", Tensor::Of<int64_t>({2}, {2, 3})}}}),
              HasSubstr("the model has no input 'shap'; did you mean 'shape'?"));
}

// Of an If whose condition is known only one branch has to make sense.
TEST(OnnxImport, BranchesOfKnownConditionsStandInPlaceOfTheIf) {
  EXPECT_EQ(
      ImportedText("g (float[2,1] x) => (y) {\n"
                   "  one = Constant <value = int64[1] {1}> ()\n"
                   "  s = Shape(x)  i = Constant <value = int64 {1}> ()\n"
                   "  d = Gather(s, i)  c = Equal(d, i)\n"
                   "  h = If <\n"
                   "    then_branch = t () => (float[2] a) { n = Neg(x) a = Squeeze(n, one) },\n"
                   "    else_branch = e () => (float[2,1] b) { b = Squeeze(x) }> (c)\n"
                   "  y = Relu(h) }"),
      Lines({"input x : f32[2,1]", "const one : i64[1] = inline [1]",
             "const i : i64[] = inline [1]", "s : i64[2] = Shape(x)", "d : i64[] = Gather(s, i)",
             "c : bool[] = Equal(d, i)", "h/n : f32[2,1] = Neg(x) scope \"h\"",
             "h : f32[2] = Squeeze(h/n, one) scope \"h\"", "y : f32[2] = Relu(h)", "output y"}));
}

TEST(OnnxImport, InputsThatAreNoTensors) {
  onnx::ModelProto model = ModelOf("g (float[2] x) => (y) { y = Relu(x) }");
  onnx::TypeProto& type = *model.mutable_graph()->mutable_input(0)->mutable_type();
  const onnx::TypeProto tensor = type;
  *type.mutable_sequence_type()->mutable_elem_type() = tensor;
  EXPECT_THAT(ImportError(model),
              HasSubstr("/graph/input/0: 'x' is a sequence; only tensors are supported"));
  type = tensor;
  type.mutable_tensor_type()->set_elem_type(onnx::TensorProto::STRING);
  EXPECT_THAT(ImportError(model), HasSubstr("'x' has elements of type string"));
  type = tensor;
  type.mutable_tensor_type()->clear_shape();
  EXPECT_THAT(ImportError(model), HasSubstr("'x' has no shape: its rank must be known"));
  type = tensor;
  type.mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_value(-2);
  EXPECT_THAT(ImportError(model), HasSubstr("'x' has a dim 0 of -2"));
  type.mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_value(INT64_MAX);
  EXPECT_THAT(ImportError(model), HasSubstr("'x' has a dim 0 of 9223372036854775807"));
}

// --- Ops ---------------------------------------------------------------------------------------

TEST(OnnxImport, UnsupportedOpsAllAtOnceWithTheirCounts) {
  EXPECT_EQ(ImportError(ModelOf("g (float[2] x) => (y) {\n"
                                "  a = Frobnicate(x) b = Frobnicate(a) c = local.Twist(b)\n"
                                "  d = SequenceConstruct(c) y = Relu(d)\n}")),
            "m.onnx:byte 7: 3 ops are not supported: Frobnicate x2, SequenceConstruct "
            "(sequences) x1, local.Twist x1; the first is Frobnicate 'a'");
  EXPECT_THAT(ImportError(ModelOf("g (float[2] x) => (y) { y = Rellu(x) }")),
              HasSubstr("1 op is not supported: Rellu x1; the first is Rellu 'y'; did you mean "
                        "'Relu'?"));
}

TEST(OnnxImport, OpsetsThatAreNotKnown) {
  EXPECT_THAT(ImportError(ModelOf("g (float[2] x) => (y) { y = Relu(x) }", 99)),
              HasSubstr("the model is of opset 99; known are 1 to 24"));
}

TEST(OnnxImport, AttributesThatAreWrong) {
  onnx::ModelProto model = ModelOf("g (float[2] x) => (y) { y = Flatten <axis = 1> (x) }");
  onnx::NodeProto& node = *model.mutable_graph()->mutable_node(0);
  *node.add_attribute() = node.attribute(0);
  EXPECT_THAT(ImportError(model), HasSubstr("/graph/node/0/attribute/1: attribute 'axis' is given "
                                            "twice"));
  node.mutable_attribute(1)->clear_name();
  EXPECT_THAT(ImportError(model), HasSubstr("/graph/node/0/attribute/1: an attribute has no name"));
  node.mutable_attribute(1)->set_name("tp");
  node.mutable_attribute(1)->set_type(onnx::AttributeProto::TYPE_PROTO);
  EXPECT_THAT(ImportError(model), HasSubstr("attribute 'tp' is of a kind that is not supported"));
}

TEST(OnnxImport, FilesWithoutAGraph) {
  EXPECT_THAT(ImportError(std::string_view("")), HasSubstr("the file has no graph"));
  onnx::ModelProto model;
  model.mutable_graph();
  EXPECT_EQ(ImportError(model), "imported");  // of nothing
}

// --- Nested graphs -----------------------------------------------------------------------------

// What bodies read from outside becomes their input, the same for both.
TEST(OnnxImport, CapturesAreInputs) {
  EXPECT_EQ(
      ImportedText("g (bool c, float[2] x, float[2] z) => (y) { y = If <\n"
                   "  then_branch = t () => (float[2] a) { a = Relu(x) },\n"
                   "  else_branch = e () => (float[2] b) { k = Neg(z) b = Add(k, x) }> (c) }"),
      Lines({"input c : bool[]", "input x : f32[2]", "input z : f32[2]",
             "y : f32[2] = If(c, x, z) graph then_branch {", "  graph then_branch",
             "  input x : f32[2]", "  input z : f32[2]", "  a : f32[2] = Relu(x)", "  output a",
             "} graph else_branch {", "  graph else_branch", "  input x : f32[2]",
             "  input z : f32[2]", "  k : f32[2] = Neg(z)", "  b : f32[2] = Add(k, x)",
             "  output b", "}", "output y"}));
}

// Shapes must be known inside: small constants are repeated there, not passed in.
TEST(OnnxImport, ConstantsAreRepeatedInBodies) {
  EXPECT_THAT(
      ImportedText("g (bool c, float[2,3] x) => (y) {\n"
                   "  s = Constant <value = int64[1] {6}> ()\n"
                   "  y = If <then_branch = t () => (float[6] a) { a = Reshape(x, s) },\n"
                   "          else_branch = e () => (float[6] b) { k = Neg(x) b = Reshape(k, s) }>"
                   " (c) }"),
      HasSubstr("  const s : i64[1] = inline [6]\n  a : f32[6] = Reshape(x, s)\n"));
}

TEST(OnnxImport, BodiesInBodiesReachOut) {
  const std::string text = ImportedText(
      "g (bool c, float[2] x) => (y) { y = If <\n"
      "  then_branch = t () => (float[2] a) { a = If <\n"
      "    then_branch = tt () => (float[2] p) { p = Relu(x) },\n"
      "    else_branch = te () => (float[2] q) { q = Exp(x) }> (c) },\n"
      "  else_branch = e () => (float[2] b) { b = Neg(x) }> (c) }");
  EXPECT_THAT(text, HasSubstr("y : f32[2] = If(c, c, x)"));
  EXPECT_THAT(text, HasSubstr("  a : f32[2] = If(c, x)"));
}

TEST(OnnxImport, BodiesThatGiveBackWhatIsAroundThem) {
  EXPECT_THAT(ImportedText("g (bool c, float[2] x) => (y) { y = If <\n"
                           "  then_branch = t () => (float[2] x) { },\n"
                           "  else_branch = e () => (float[2] b) { b = Neg(x) }> (c) }"),
              HasSubstr("  graph then_branch\n  input x : f32[2]\n  output x\n"));
}

// --- Functions ---------------------------------------------------------------------------------

constexpr std::string_view kScaled =
    "<domain: \"local\", opset_import: [\"\" : 17, \"local\" : 1]>\n"
    "scaled <axis> (a, b) => (c) { t = Flatten <axis : int = @axis> (a) c = Add(t, b) }\n";

TEST(OnnxImport, FunctionsAreExpanded) {
  EXPECT_EQ(ImportedText(StrCat("g (float[2,3] x, float[3] w, float[6] k) => (y) {\n"
                                "  h = local.scaled <axis = 1> (x, w)\n"
                                "  y = local.scaled <axis = 0> (h, k)\n}\n",
                                kScaled)),
            Lines({"input x : f32[2,3]", "input w : f32[3]", "input k : f32[6]",
                   "h/t : f32[2,3] = Flatten(x) {axis = 1} scope \"h\"",
                   "h : f32[2,3] = Add(h/t, w) scope \"h\"",
                   "y/t : f32[1,6] = Flatten(h) {axis = 0} scope \"y\"",
                   "y : f32[1,6] = Add(y/t, k) scope \"y\"", "output y"}));
}

TEST(OnnxImport, FunctionsOfFunctions) {
  EXPECT_THAT(ImportedText(StrCat("g (float[2,3] x) => (y) { y = local.twice <n = 1> (x) }\n",
                                  "<domain: \"local\", opset_import: [\"\" : 17, \"local\" : 1]>\n"
                                  "twice <n> (a) => (c) { t = local.scaled <axis : int = @n> (a, a)"
                                  " c = Relu(t) }\n",
                                  kScaled)),
              HasSubstr("y/t/t : f32[2,3] = Flatten(x) {axis = 1} scope \"y/t\"\n"));
}

// An input may be returned as it is, and one that the caller leaves out stays out.
TEST(OnnxImport, FunctionsWithoutNodes) {
  EXPECT_EQ(ImportedText("g (float[2] x) => (y) { h = local.same(x) y = Relu(h) }\n"
                         "<domain: \"local\", opset_import: [\"\" : 17]>\n"
                         "same (a, b) => (a) { }\n"),
            Lines({"input x : f32[2]", "y : f32[2] = Relu(x)", "output y"}));
}

TEST(OnnxImport, FunctionsThatCallThemselves) {
  EXPECT_THAT(ImportError(ModelOf("g (float[2] x) => (y) { y = local.f(x) }\n"
                                  "<domain: \"local\", opset_import: [\"local\" : 1]>\n"
                                  "f (a) => (b) { b = local.h(a) }\n"
                                  "<domain: \"local\", opset_import: [\"local\" : 1]>\n"
                                  "h (a) => (b) { b = local.f(a) }\n")),
              HasSubstr("/functions/1/node/0: local.f 'y': a function calls itself: 'f' -> 'h' -> "
                        "'f'"));
}

// 2^40 nodes from a few hundred bytes.
TEST(OnnxImport, FunctionsThatExpandWithoutEnd) {
  std::string text = "g (float[2] x) => (y) { y = local.f0(x) }\n";
  for (int i = 0; i < 40; ++i) {
    StrAppend(&text, "<domain: \"local\", opset_import: [\"\" : 17, \"local\" : 1]>\nf", i,
              " (a) => (c) { b = local.f", i + 1, "(a) c = local.f", i + 1, "(b) }\n");
  }
  StrAppend(&text,
            "<domain: \"local\", opset_import: [\"\" : 17]>\nf40 (a) => (c) { c = Neg(a) }\n");
  EXPECT_THAT(ImportError(ModelOf(text)), HasSubstr("functions expand to too many nodes"));
}

TEST(OnnxImport, FunctionsThatAreCalledWrongly) {
  EXPECT_THAT(ImportError(ModelOf(StrCat(
                  "g (float[2,3] x) => (y) { y = local.scaled <axis = 1> (x, x, x) }\n", kScaled))),
              HasSubstr("function 'scaled' has 2 inputs and 1 outputs, the node 3 and 1"));
}

// Fields of ONNX 1.14 and later, which the schema we build with does not know.
TEST(OnnxImport, FunctionsWithDefaultsAndOverloads) {
  onnx::ModelProto model =
      ModelOf(StrCat("g (float[2,3] x) => (y) { y = local.scaled(x, x) }\n", kScaled));
  onnx::FunctionProto& function = *model.mutable_functions(0);
  onnx::AttributeProto axis;
  axis.set_name("axis");
  axis.set_type(onnx::AttributeProto::INT);
  axis.set_i(1);
  auto* fields = function.GetReflection()->MutableUnknownFields(&function);
  fields->AddLengthDelimited(11, axis.SerializeAsString());
  fields->AddLengthDelimited(13, "wide");
  EXPECT_THAT(ImportError(model), HasSubstr("not supported: local.scaled x1"));
  onnx::NodeProto& node = *model.mutable_graph()->mutable_node(0);
  node.GetReflection()->MutableUnknownFields(&node)->AddLengthDelimited(8, "wide");
  EXPECT_EQ(ImportError(model), "imported");
}

// A body in a function sees the function's names, and its attributes.
TEST(OnnxImport, BodiesInFunctions) {
  EXPECT_THAT(
      ImportedText("g (bool c, float[2,3] x) => (y) { y = local.pick <n = 1> (c, x) }\n"
                   "<domain: \"local\", opset_import: [\"\" : 17]>\n"
                   "pick <n> (p, v) => (r) { t = Relu(v) r = If <\n"
                   "  then_branch = a () => (float[2,3] s) { s = Flatten <axis : int = @n> (t) },\n"
                   "  else_branch = b () => (float[2,3] u) { u = Neg(t) }> (p) }\n"),
      HasSubstr("  s : f32[2,3] = Flatten(y/t) {axis = 1}\n"));
}

}  // namespace
}  // namespace millrace
