// CPU kernels alone: what one Run costs, for ops that matter, as CpuTarget's first variant (or the
// one named in the benchmark). Rates: bytes moved (each operand once) and FLOP/s.
//
// CopyLoop is the yardstick for memory-bound ops: the machine's memcpy over as many bytes in all.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/cpu_target.h"
#include "ops/infer.h"

namespace millrace {
namespace {

// A prepared kernel with operands filled with small numbers.
class Bench {
 public:
  Bench(const std::string& op, const std::vector<Shape>& inputs, Attrs attrs = {},
        std::string_view variant = "", int threads = 1) {
    NodeQuery query;
    query.op = op;
    query.attrs = std::move(attrs);
    for (const Shape& shape : inputs) query.inputs.push_back(TensorType{DType::kF32, shape});
    query.outputs.resize(1, TensorType());
    query.outputs[0] = InferOutputs(query, {}).value()[0];
    for (const KernelVariant& v : CpuTarget(threads).Variants(query)) {
      if (variant.empty() || v.name.starts_with(variant)) {
        variant_ = v;
        break;
      }
    }
    KernelRequest request;
    request.query = query;
    request.variant = variant_.name;
    request.threads = threads;
    request.scratch_bytes = variant_.scratch_bytes;
    kernel_ = CreateCpuKernelLibrary()->Prepare(request).value();
    for (const auto& type : query.inputs) in_.push_back(Place(*type));
    out_.push_back(Place(*query.outputs[0]));
    scratch_ = Place({DType::kU8, {variant_.scratch_bytes}});
  }

  bool RunOnce() {
    const KernelArgs args = {.inputs = in_.data(), .outputs = out_.data(), .scratch = scratch_};
    return kernel_->Run(args).ok();
  }

  void Run(benchmark::State& state) {
    for (auto _ : state) {
      if (!RunOnce()) state.SkipWithError("failed");
    }
    const double runs = static_cast<double>(state.iterations());
    state.SetLabel(variant_.name);
    state.counters["B/s"] = benchmark::Counter(variant_.bytes * runs, benchmark::Counter::kIsRate);
    if (variant_.flops > 0) {
      state.counters["FLOP/s"] =
          benchmark::Counter(variant_.flops * runs, benchmark::Counter::kIsRate);
    }
  }

 private:
  void* Place(const TensorType& type) {
    Tensor& t = tensors_.emplace_back(Tensor::Allocate(type).value());
    if (type.dtype == DType::kF32) {
      float* data = t.mutable_data<float>().data();
      for (int64_t i = 0; i < t.num_elements(); ++i) {
        data[i] = 0.01f * static_cast<float>(i % 199) - 1;
      }
    }
    return t.mutable_bytes();
  }

  KernelVariant variant_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<Tensor> tensors_;
  std::vector<void*> in_, out_;
  void* scratch_ = nullptr;
};

void CopyLoop(benchmark::State& state) {  // argument: bytes read and written together
  std::vector<char> from(state.range(0) / 2, 1), to(state.range(0) / 2);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::ClobberMemory();
  }
  state.counters["B/s"] = benchmark::Counter(
      static_cast<double>(state.range(0)) * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate);
}
BENCHMARK(CopyLoop)->Arg(24 << 10)->Arg(96 << 20);

void Elementwise(benchmark::State& state, const char* op, int operands) {
  Bench(op, std::vector<Shape>(operands, Shape{state.range(0)})).Run(state);
}
#define ELEMENTWISE(op, operands) \
  BENCHMARK_CAPTURE(Elementwise, op, #op, operands)->Arg(8)->Arg(4096)->Arg(8 << 20)
ELEMENTWISE(Add, 2);
ELEMENTWISE(Relu, 1);
ELEMENTWISE(Exp, 1);
ELEMENTWISE(Tanh, 1);
ELEMENTWISE(Erf, 1);
ELEMENTWISE(Gelu, 1);
ELEMENTWISE(Sigmoid, 1);

void Rows(benchmark::State& state, const char* op, int operands) {
  std::vector<Shape> shapes = {{state.range(0), state.range(1)}};
  shapes.resize(operands, Shape{state.range(1)});
  Bench(op, shapes).Run(state);
}
BENCHMARK_CAPTURE(Rows, AddBias, "Add", 2)->Args({1, 8})->Args({128, 768})->Args({1024, 3072});
BENCHMARK_CAPTURE(Rows, Softmax, "Softmax", 1)->Args({1, 10})->Args({1536, 128})->Args({64, 32768});
BENCHMARK_CAPTURE(Rows, LayerNorm, "LayerNormalization", 3)->Args({1, 64})->Args({128, 768});
BENCHMARK_CAPTURE(Rows, MeanOfAll, "ReduceMean", 1)->Args({128, 768});
BENCHMARK_CAPTURE(Rows, Transpose, "Transpose", 1)->Args({128, 768})->Args({1024, 3072});

void MatMul(benchmark::State& state, const char* variant, int threads) {
  const int64_t batch = state.range(0), m = state.range(1), k = state.range(2), n = state.range(3);
  const Shape a = batch > 1 ? Shape{batch, m, k} : Shape{m, k};
  const Shape b = batch > 1 ? Shape{batch, k, n} : Shape{k, n};
  Bench("MatMul", {a, b}, {}, variant, threads).Run(state);
}
void SmallProducts(benchmark::internal::Benchmark* b) {
  b->Args({1, 1, 64, 10})->Args({1, 8, 32, 32})->Args({1, 32, 32, 32})->Args({1, 1, 256, 256});
  b->Args({1, 32, 64, 32});
}
void Products(benchmark::internal::Benchmark* b) {
  b->Args({1, 128, 768, 768})->Args({1, 128, 768, 3072})->Args({1, 128, 3072, 768});
  b->Args({12, 128, 64, 128})->Args({12, 128, 128, 64})->Args({1, 1024, 1024, 1024});
  b->Args({1, 1, 768, 3072});
}
BENCHMARK_CAPTURE(MatMul, own, "simd", 1)->Apply(SmallProducts);
BENCHMARK_CAPTURE(MatMul, oneDNN, "onednn", 1)->Apply(SmallProducts)->Apply(Products);
BENCHMARK_CAPTURE(MatMul, oneDNN_two_threads, "onednn", 2)->Apply(Products)->UseRealTime();

// Arguments: heads, queries, keys, head.
void Attention(benchmark::State& state, const char* layout, bool causal) {
  const int64_t heads = state.range(0), queries = state.range(1), keys = state.range(2);
  const bool tokens_first = layout == std::string_view("bthd");
  const auto shape = [&](int64_t tokens) {
    return tokens_first ? Shape{1, tokens, heads, state.range(3)}
                        : Shape{1, heads, tokens, state.range(3)};
  };
  Attrs attrs;
  attrs.Set("causal", causal);
  for (const char* name : {"q_layout", "k_layout", "v_layout", "y_layout"}) {
    attrs.Set(name, std::string(layout));
  }
  Bench("fused.Attention", {shape(queries), shape(keys), shape(keys)}, attrs).Run(state);
}
// The same by the nodes it stands for, K already transposed.
void AttentionInThree(benchmark::State& state) {
  const int64_t heads = state.range(0), queries = state.range(1), keys = state.range(2);
  const int64_t size = state.range(3);
  Bench scores("MatMul", {{heads, queries, size}, {heads, size, keys}});
  Bench weights("Softmax", {{heads, queries, keys}});
  Bench mixed("MatMul", {{heads, queries, keys}, {heads, keys, size}});
  for (auto _ : state) {
    if (!scores.RunOnce() || !weights.RunOnce() || !mixed.RunOnce()) state.SkipWithError("failed");
  }
}
void AttentionSizes(benchmark::internal::Benchmark* b) {
  b->Args({12, 128, 128, 64})->Args({12, 197, 197, 64})->Args({12, 1024, 1024, 64});
  b->Args({12, 1, 1024, 64});
}
BENCHMARK_CAPTURE(Attention, heads_first, "bhtd", false)->Apply(AttentionSizes);
BENCHMARK_CAPTURE(Attention, tokens_first, "bthd", false)->Apply(AttentionSizes);
BENCHMARK_CAPTURE(Attention, causal, "bthd", true)->Apply(AttentionSizes);
BENCHMARK(AttentionInThree)->Apply(AttentionSizes);

// Arguments: batch, channels in, size, channels out, kernel, stride; groups = channels in when
// depthwise.
void Conv(benchmark::State& state, bool depthwise, int threads, const char* variant) {
  const int64_t in = state.range(1), size = state.range(2), out = state.range(3);
  const int64_t kernel = state.range(4), stride = state.range(5), pad = kernel / 2;
  Attrs attrs;
  attrs.Set("pads", std::vector<int64_t>{pad, pad, pad, pad});
  attrs.Set("strides", std::vector<int64_t>{stride, stride});
  attrs.Set("group", depthwise ? in : int64_t{1});
  Bench("Conv",
        {{state.range(0), in, size, size}, {out, depthwise ? 1 : in, kernel, kernel}, {out}}, attrs,
        variant, threads)
      .Run(state);
}
void ResNetConvs(benchmark::internal::Benchmark* b) {
  b->Args({1, 3, 224, 64, 7, 2})->Args({1, 64, 56, 64, 1, 1})->Args({1, 64, 56, 64, 3, 1});
  b->Args({1, 256, 56, 128, 1, 1})->Args({1, 128, 28, 128, 3, 1})->Args({1, 256, 14, 256, 3, 1});
  b->Args({1, 512, 7, 512, 3, 1})->Args({1, 512, 7, 2048, 1, 1});
}
void SmallConvs(benchmark::internal::Benchmark* b) {
  b->Args({1, 1, 8, 16, 3, 1})->Args({1, 16, 8, 32, 3, 1})->Args({1, 32, 4, 32, 3, 1});
  b->Args({32, 1, 8, 16, 3, 1})->Args({1, 64, 14, 32, 1, 1});
}
BENCHMARK_CAPTURE(Conv, own, false, 1, "simd")->Apply(SmallConvs);
BENCHMARK_CAPTURE(Conv, oneDNN, false, 1, "onednn")->Apply(SmallConvs)->Apply(ResNetConvs);
BENCHMARK_CAPTURE(Conv, oneDNN_two_threads, false, 2, "onednn")->Apply(ResNetConvs)->UseRealTime();
BENCHMARK_CAPTURE(Conv, depthwise, true, 1, "onednn")->Args({1, 96, 56, 96, 3, 1});

void MaxPool(benchmark::State& state) {
  Attrs attrs;
  attrs.Set("kernel_shape", std::vector<int64_t>{3, 3});
  attrs.Set("strides", std::vector<int64_t>{2, 2});
  attrs.Set("pads", std::vector<int64_t>{1, 1, 1, 1});
  Bench("MaxPool", {{1, state.range(0), state.range(1), state.range(1)}}, attrs).Run(state);
}
BENCHMARK(MaxPool)->Args({64, 112})->Args({16, 8});

}  // namespace
}  // namespace millrace

BENCHMARK_MAIN();
