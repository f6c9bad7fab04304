#include "graph/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <set>

#include "graph/files.h"
#include "graph/strings.h"

namespace millrace {
namespace {

using Block = std::array<uint32_t, 4>;

Block RandomBlock(uint64_t seed, uint64_t block, uint64_t step) {
  return Philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                     static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32)},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

float ToUniform(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// Both normals of a pair of words: cosine, then sine.
std::array<float, 2> ToNormals(uint32_t a, uint32_t b) {
  const double u = (static_cast<double>(a >> 8) + 1) * 0x1p-24;  // in (0, 1]
  const double radius = std::sqrt(-2 * std::log(u));
  const double angle = 2 * std::numbers::pi * 0x1p-24 * static_cast<double>(b >> 8);
  return {static_cast<float>(radius * std::cos(angle)),
          static_cast<float>(radius * std::sin(angle))};
}

std::array<float, 4> UniformBlock(uint64_t seed, uint64_t block, uint64_t step = 0) {
  const Block words = RandomBlock(seed, block, step);
  return {ToUniform(words[0]), ToUniform(words[1]), ToUniform(words[2]), ToUniform(words[3])};
}

std::array<float, 4> NormalBlock(uint64_t seed, uint64_t block, uint64_t step = 0) {
  const Block words = RandomBlock(seed, block, step);
  const auto a = ToNormals(words[0], words[1]), b = ToNormals(words[2], words[3]);
  return {a[0], a[1], b[0], b[1]};
}

// Element i of the result is offset + scale * element i of the stream.
struct Distribution {
  bool normal = false;
  double offset = 0, scale = 1;
};

template <typename T>
void Fill(std::span<T> elements, uint64_t seed, const Distribution& d) {
  for (size_t i = 0; i < elements.size(); i += 4) {
    const auto block = d.normal ? NormalBlock(seed, i / 4) : UniformBlock(seed, i / 4);
    const size_t n = std::min<size_t>(4, elements.size() - i);
    for (size_t j = 0; j < n; ++j) {
      const double value = d.offset + d.scale * static_cast<double>(block[j]);
      if constexpr (std::is_same_v<T, double>) {
        elements[i + j] = value;
      } else {
        elements[i + j] = static_cast<T>(static_cast<float>(value));
      }
    }
  }
}

void FillRandom(Tensor& tensor, uint64_t seed, const Distribution& d) {
  switch (tensor.dtype()) {
    case DType::kF16:
      return Fill(tensor.mutable_data<Half>(), seed, d);
    case DType::kBF16:
      return Fill(tensor.mutable_data<BFloat16>(), seed, d);
    case DType::kF32:
      return Fill(tensor.mutable_data<float>(), seed, d);
    case DType::kF64:
      return Fill(tensor.mutable_data<double>(), seed, d);
    default:
      MILLRACE_CHECK(false);  // CheckInit refused it
  }
}

struct Fans {
  double in = 1, out = 1;
};

// As PyTorch defines them for convolution weights [out, in, ...]; a matrix is [in, out] here.
Fans FansOf(const Shape& shape) {
  Fans fans{static_cast<double>(shape[1]), static_cast<double>(shape[0])};
  if (shape.rank() == 2) std::swap(fans.in, fans.out);
  for (int i = 2; i < shape.rank(); ++i) {
    fans.in *= static_cast<double>(shape[i]);
    fans.out *= static_cast<double>(shape[i]);
  }
  return fans;
}

Distribution DistributionOf(const TensorType& type, const Init& init) {
  switch (init.kind) {
    case InitKind::kUniform:
      return {false, init.low, init.high - init.low};
    case InitKind::kNormal:
      return {true, 0, init.std};
    case InitKind::kHeNormal:
      return {true, 0, std::sqrt(2 / std::max(1.0, FansOf(type.shape).in))};
    case InitKind::kXavierUniform: {
      const Fans fans = FansOf(type.shape);
      const double bound = std::sqrt(6 / std::max(1.0, fans.in + fans.out));
      return {false, -bound, 2 * bound};
    }
    default:
      return {};
  }
}

// `type` with every element equal to the one of `element`.
absl::StatusOr<Tensor> Expand(const TensorType& type, const Tensor& element) {
  MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type));
  const int64_t size = tensor.size_bytes();
  std::byte* bytes = tensor.mutable_bytes();
  int64_t done = std::min(size, element.size_bytes());
  std::memcpy(bytes, element.bytes(), static_cast<size_t>(done));
  while (done < size) {  // what is there, again: doubles each time
    const int64_t more = std::min(done, size - done);
    std::memcpy(bytes + done, bytes, static_cast<size_t>(more));
    done += more;
  }
  return tensor;
}

absl::StatusOr<Tensor> Ones(const TensorType& type) {
  Tensor one = Tensor::Zeros({type.dtype, {}});
  one.Set(0, 1);
  return Expand(type, one);
}

}  // namespace

std::array<uint32_t, 4> Philox4x32(const std::array<uint32_t, 4>& counter,
                                   const std::array<uint32_t, 2>& key) {
  std::array<uint32_t, 4> c = counter;
  std::array<uint32_t, 2> k = key;
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(a)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c;
}

float UniformAt(uint64_t seed, uint64_t counter, uint64_t step) {
  return UniformBlock(seed, counter / 4, step)[counter % 4];
}

float NormalAt(uint64_t seed, uint64_t counter, uint64_t step) {
  return NormalBlock(seed, counter / 4, step)[counter % 4];
}

absl::Status CheckInit(const TensorType& type, const Init& init) {
  if (init.kind == InitKind::kZeros || init.kind == InitKind::kOnes) return absl::OkStatus();
  if (!IsFloat(type.dtype)) {
    return BadInputError(StrCat("random init needs a float dtype, not ", DTypeName(type.dtype)));
  }
  const bool has_fans = init.kind == InitKind::kHeNormal || init.kind == InitKind::kXavierUniform;
  if (has_fans && type.shape.rank() < 2) {
    return BadInputError(StrCat("he_normal and xavier_uniform need rank 2 or more; ",
                                ToString(type), " has rank ", type.shape.rank()));
  }
  if (init.kind == InitKind::kUniform &&
      !(std::isfinite(init.low) && std::isfinite(init.high) && init.low < init.high)) {
    return BadInputError(
        StrCat("uniform init needs low < high; found low ", init.low, ", high ", init.high));
  }
  if (init.kind == InitKind::kNormal && !(init.std >= 0 && std::isfinite(init.std))) {
    return BadInputError(StrCat("normal init needs std >= 0; found ", init.std));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> GenerateInit(const TensorType& type, const Init& init) {
  MILLRACE_RETURN_IF_ERROR(CheckInit(type, init));
  if (init.kind == InitKind::kOnes) return Ones(type);
  MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type));
  if (init.kind == InitKind::kZeros) {
    std::memset(tensor.mutable_bytes(), 0, static_cast<size_t>(tensor.size_bytes()));
  } else {
    FillRandom(tensor, init.seed, DistributionOf(type, init));
  }
  return tensor;
}

namespace {

absl::StatusOr<SafetensorsFile> OpenWeights(const Graph& graph, const std::string& key) {
  const auto found = std::find_if(graph.weight_files.begin(), graph.weight_files.end(),
                                  [&](const WeightFile& file) { return file.key == key; });
  if (found == graph.weight_files.end()) {
    return BadInputError(StrCat("there is no weight file '", key, "'"));
  }
  MILLRACE_ASSIGN_OR_RETURN(MappedFile mapped, MapFileInside(graph.directory, found->path));
  const std::string path = PathInside(graph.directory, found->path);
  if (!found->sha256.empty()) {
    const std::string hash = Sha256Hex(
        {reinterpret_cast<const char*>(mapped.bytes.get()), static_cast<size_t>(mapped.size)});
    if (hash != found->sha256) {
      return BadInputError(StrCat("'", path, "' is not the file that the graph was saved with: ",
                                  "its SHA-256 differs; expected ", found->sha256, ", found ",
                                  hash));
    }
  }
  return SafetensorsFile::Open(std::move(mapped), path);
}

}  // namespace

absl::StatusOr<const SafetensorsFile*> WeightStore::Open(const std::string& key) {
  auto opened = files_.find(key);
  if (opened == files_.end()) opened = files_.emplace(key, OpenWeights(*graph_, key)).first;
  MILLRACE_RETURN_IF_ERROR(opened->second.status());
  return &*opened->second;
}

absl::StatusOr<Tensor> WeightStore::Get(ValueId id) {
  const Value& value = graph_->value(id);
  MILLRACE_CHECK(value.data >= 0);
  const DataSource& source = graph_->data_of(id);
  const TensorType type = GlobalType(*graph_, id);
  const auto fetch = [&]() -> absl::StatusOr<Tensor> {
    switch (source.kind) {
      case DataSource::Kind::kNone:
        return BadInputError("has no data");
      case DataSource::Kind::kFile: {
        MILLRACE_ASSIGN_OR_RETURN(const SafetensorsFile* file, Open(source.file));
        return file->Get(source.tensor_name);
      }
      case DataSource::Kind::kInline:
      case DataSource::Kind::kBase64:
        return source.tensor;
      case DataSource::Kind::kSplat:
        return Expand(type, source.tensor);
      case DataSource::Kind::kInit:
        return GenerateInit(type, source.init);
    }
    return InternalError("unknown kind of data");
  };
  absl::StatusOr<Tensor> tensor = fetch();
  if (!tensor.ok()) return Annotate(tensor.status(), StrCat("'", value.name, "'"));
  if (tensor->type() != type) {
    return BadInputError(
        StrCat("'", value.name, "' is declared ", ToString(type), ", but its data (",
               source.kind == DataSource::Kind::kFile
                   ? StrCat("tensor '", source.tensor_name, "' of file '", source.file, "'")
                   : std::string("inline"),
               ") are ", ToString(tensor->type())));
  }
  return tensor;
}

namespace {

class WeightVerifier {
 public:
  WeightVerifier(const Graph& graph, std::string pointer, Diagnostics& diagnostics)
      : graph_(graph), pointer_(std::move(pointer)), diagnostics_(diagnostics), store_(graph) {}

  void Run() {
    CheckList("params", graph_.params);
    CheckList("constants", graph_.constants);
    for (const Node& node : graph_.nodes) {
      for (const Subgraph& sub : node.subgraphs) {
        WeightVerifier(sub.graph,
                       StrCat(pointer_, "/nodes/", node.file_index, "/graphs/", sub.name),
                       diagnostics_)
            .Run();
      }
    }
  }

 private:
  void CheckList(std::string_view list, const std::vector<ValueId>& ids) {
    for (size_t i = 0; i < ids.size(); ++i) {
      const Value& value = graph_.value(ids[i]);
      if (value.data < 0 || graph_.data_of(ids[i]).kind != DataSource::Kind::kFile) continue;
      Check(value, GlobalType(graph_, ids[i]), graph_.data_of(ids[i]),
            StrCat(pointer_, "/", list, "/", i, "/data"));
    }
  }

  void Check(const Value& value, const TensorType& whole, const DataSource& source,
             std::string pointer) {
    Diagnostic d;
    d.file = graph_.file;
    d.position = value.position;
    d.pointer = std::move(pointer);
    const absl::StatusOr<const SafetensorsFile*> file = store_.Open(source.file);
    if (!file.ok()) {
      if (!refused_.insert(source.file).second) return;
      d.message = StrCat("weight file '", source.file, "': ", file.status().message());
      return diagnostics_.Add(std::move(d));
    }
    const std::optional<TensorType> type = (*file)->TypeOf(source.tensor_name);
    if (!type.has_value()) {
      d.message = StrCat("'", (*file)->path(), "' has no tensor '", source.tensor_name, "'");
      if (!diagnostics_.full()) d.hint = DidYouMean(source.tensor_name, (*file)->names());
    } else if (*type != whole) {
      d.message = StrCat("'", value.name, "' has another type than tensor '", source.tensor_name,
                         "' of '", (*file)->path(), "'");
      d.expected = ToString(whole);
      d.found = ToString(*type);
    } else {
      return;
    }
    diagnostics_.Add(std::move(d));
  }

  const Graph& graph_;
  const std::string pointer_;
  Diagnostics& diagnostics_;
  WeightStore store_;
  std::set<std::string> refused_;  // files told of
};

}  // namespace

void VerifyWeights(const Graph& graph, Diagnostics& diagnostics, std::string_view pointer) {
  WeightVerifier(graph, std::string(pointer), diagnostics).Run();
}

}  // namespace millrace
