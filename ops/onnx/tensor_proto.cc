#include "ops/onnx/tensor_proto.h"

#include <cstring>

#include "absl/strings/numbers.h"
#include "graph/strings.h"
#include "ops/onnx/proto.h"

namespace millrace {
namespace {

struct TypeName {
  int32_t data_type;
  std::string_view name;
  std::optional<DType> dtype;
};
// By number; the ones above 16 are younger than the schema we build with.
constexpr TypeName kTypes[] = {{0, "undefined", std::nullopt},
                               {1, "float", DType::kF32},
                               {2, "uint8", DType::kU8},
                               {3, "int8", DType::kI8},
                               {4, "uint16", DType::kU16},
                               {5, "int16", DType::kI16},
                               {6, "int32", DType::kI32},
                               {7, "int64", DType::kI64},
                               {8, "string", std::nullopt},
                               {9, "bool", DType::kBool},
                               {10, "float16", DType::kF16},
                               {11, "double", DType::kF64},
                               {12, "uint32", DType::kU32},
                               {13, "uint64", DType::kU64},
                               {14, "complex64", std::nullopt},
                               {15, "complex128", std::nullopt},
                               {16, "bfloat16", DType::kBF16},
                               {17, "float8e4m3fn", std::nullopt},
                               {18, "float8e4m3fnuz", std::nullopt},
                               {19, "float8e5m2", std::nullopt},
                               {20, "float8e5m2fnuz", std::nullopt},
                               {21, "uint4", std::nullopt},
                               {22, "int4", std::nullopt},
                               {23, "float4e2m1", std::nullopt}};

const TypeName* FindType(int32_t data_type) {
  for (const TypeName& type : kTypes) {
    if (type.data_type == data_type) return &type;
  }
  return nullptr;
}

absl::StatusOr<TensorType> TypeOf(const onnx::TensorProto& proto) {
  const std::optional<DType> dtype = FromOnnxType(proto.data_type());
  if (!dtype.has_value()) {
    return BadInputError(
        StrCat("elements of type ", OnnxTypeName(proto.data_type()), " are not supported"));
  }
  TensorType type{*dtype, {}};
  if (proto.dims_size() > kMaxRank) {
    return BadInputError(StrCat("rank ", proto.dims_size(), "; expected at most ", kMaxRank));
  }
  for (const int64_t dim : proto.dims()) type.shape.push_back(dim);
  if (!CheckedByteSize(type).has_value()) {
    return BadInputError(StrCat("dims ", ToString(type.shape), " are negative or too large"));
  }
  return type;
}

absl::Status WrongCount(std::string_view field, int64_t count, const TensorType& type,
                        std::string_view unit) {
  return BadInputError(StrCat(field, " does not fit the type; expected ",
                              unit == "bytes" ? ByteSize(type) : NumElements(type.shape), " ", unit,
                              " for ", ToString(type), ", found ", count));
}

// The elements of a typed field, each of which must be a value of T.
template <typename T, typename Field>
absl::StatusOr<Tensor> FromField(const TensorType& type, const Field& field,
                                 std::string_view name) {
  if (field.size() != NumElements(type.shape)) {
    return WrongCount(name, field.size(), type, "elements");
  }
  MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type));
  T* to = reinterpret_cast<T*>(tensor.mutable_bytes());
  for (int i = 0; i < field.size(); ++i) {
    to[i] = static_cast<T>(field[i]);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (static_cast<std::decay_t<decltype(field[i])>>(to[i]) != field[i]) {
        return BadInputError(StrCat("element ", i, " of ", name, " is ", field[i],
                                    ", which is no value of ", DTypeName(type.dtype)));
      }
    }
  }
  return tensor;
}

absl::StatusOr<Tensor> FromTypedField(const TensorType& type, const onnx::TensorProto& proto) {
  switch (type.dtype) {
    case DType::kF32:
      return FromField<float>(type, proto.float_data(), "float_data");
    case DType::kF64:
      return FromField<double>(type, proto.double_data(), "double_data");
    case DType::kI64:
      return FromField<int64_t>(type, proto.int64_data(), "int64_data");
    case DType::kU64:
      return FromField<uint64_t>(type, proto.uint64_data(), "uint64_data");
    case DType::kU32:
      return FromField<uint32_t>(type, proto.uint64_data(), "uint64_data");
    case DType::kI32:
      return FromField<int32_t>(type, proto.int32_data(), "int32_data");
    case DType::kI16:
      return FromField<int16_t>(type, proto.int32_data(), "int32_data");
    case DType::kI8:
      return FromField<int8_t>(type, proto.int32_data(), "int32_data");
    case DType::kU8:
      return FromField<uint8_t>(type, proto.int32_data(), "int32_data");
    case DType::kBool:
      return FromField<bool>(type, proto.int32_data(), "int32_data");
    case DType::kU16:
    case DType::kF16:  // halves stand for themselves, bit by bit
    case DType::kBF16:
      return FromField<uint16_t>(type, proto.int32_data(), "int32_data");
  }
  return InternalError("an element type without a field");
}

// Any byte but 0 is true in a file, while a bool of ours is 0 or 1.
absl::StatusOr<Tensor> Normalized(Tensor tensor) {
  if (tensor.dtype() != DType::kBool) return tensor;
  MILLRACE_ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(tensor.type()));
  for (int64_t i = 0; i < tensor.size_bytes(); ++i) {
    copy.mutable_bytes()[i] = std::byte(tensor.bytes()[i] != std::byte(0));
  }
  return copy;
}

// Moves the bytes out of `raw`, unless they lie at odd places, as those of short strings may.
absl::StatusOr<Tensor> FromRaw(const TensorType& type, std::string& raw) {
  if (static_cast<int64_t>(raw.size()) != ByteSize(type)) {
    return WrongCount("raw_data", static_cast<int64_t>(raw.size()), type, "bytes");
  }
  constexpr size_t kSmall = 64;
  if (raw.size() <= kSmall) {
    MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type));
    std::memcpy(tensor.mutable_bytes(), raw.data(), raw.size());
    return Normalized(std::move(tensor));
  }
  auto owner = std::make_shared<std::string>(std::move(raw));
  const auto* bytes = reinterpret_cast<const std::byte*>(owner->data());
  return Normalized(Tensor::Wrap(type, std::shared_ptr<const std::byte>(owner, bytes)));
}

absl::StatusOr<int64_t> ParseCount(const std::string& key, const std::string& text) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 0) {
    return BadInputError(
        StrCat("external_data: '", key, "' is '", text.substr(0, 40), "'; expected bytes"));
  }
  return value;
}

absl::StatusOr<Tensor> FromExternal(const TensorType& type, const onnx::TensorProto& proto,
                                    ExternalData& external) {
  std::string location;
  int64_t offset = 0, length = -1;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") {
      MILLRACE_ASSIGN_OR_RETURN(offset, ParseCount(entry.key(), entry.value()));
    }
    if (entry.key() == "length") {
      MILLRACE_ASSIGN_OR_RETURN(length, ParseCount(entry.key(), entry.value()));
    }
  }
  if (location.empty()) return BadInputError("external_data names no 'location'");
  MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, external.Get(type, location, offset, length));
  return Normalized(std::move(tensor));
}

// Row-major positions of a sparse tensor's values.
absl::StatusOr<std::vector<int64_t>> PositionsOf(const Tensor& indices, int64_t count,
                                                 const Shape& dims) {
  const Shape linear = {count}, coordinates = {count, dims.rank()};
  if (indices.dtype() != DType::kI64 ||
      (indices.shape() != linear && indices.shape() != coordinates)) {
    return BadInputError(StrCat("sparse indices do not fit; expected i64", ToString(linear),
                                " or i64", ToString(coordinates), ", found ",
                                ToString(indices.type())));
  }
  const Shape strides = DenseStrides(dims);
  const int per_value = indices.shape() == coordinates ? dims.rank() : 1;
  const bool is_linear = indices.shape().rank() == 1;
  std::vector<int64_t> positions(count, 0);
  for (int64_t i = 0; i < count; ++i) {
    for (int d = 0; d < per_value; ++d) {
      const int64_t index = indices.data<int64_t>()[i * per_value + d];
      const int64_t limit = is_linear ? NumElements(dims) : dims[d];
      if (index < 0 || index >= limit) {
        return BadInputError(
            StrCat("sparse index ", index, " of value ", i, " is out of range [0,", limit, ")"));
      }
      positions[i] += is_linear ? index : index * strides[d];
    }
  }
  return positions;
}

}  // namespace

std::optional<DType> FromOnnxType(int32_t data_type) {
  const TypeName* type = FindType(data_type);
  return type == nullptr ? std::nullopt : type->dtype;
}

int32_t ToOnnxType(DType dtype) {
  for (const TypeName& type : kTypes) {
    if (type.dtype == dtype) return type.data_type;
  }
  MILLRACE_CHECK(false);
  return 0;
}

std::string OnnxTypeName(int32_t data_type) {
  const TypeName* type = FindType(data_type);
  return type == nullptr ? StrCat("data type ", data_type) : std::string(type->name);
}

absl::StatusOr<Tensor> ExternalData::Get(const TensorType& type, const std::string& location,
                                         int64_t offset, int64_t length) {
  auto found = files_.find(location);
  if (found == files_.end()) {
    MILLRACE_ASSIGN_OR_RETURN(MappedFile mapped, MapFileInside(directory_, location));
    found = files_.emplace(location, std::move(mapped)).first;
  }
  const MappedFile& file = found->second;
  const int64_t size = ByteSize(type);
  if (length >= 0 && length != size) {
    return WrongCount(StrCat("external_data in '", location, "'"), length, type, "bytes");
  }
  if (offset > file.size || size > file.size - offset) {
    return BadInputError(StrCat("external_data: ", size, " bytes from byte ", offset,
                                " run past the end of '", location, "', which has ", file.size));
  }
  if (size == 0) return Tensor::Allocate(type);
  const std::byte* bytes = file.bytes.get() + offset;
  if (reinterpret_cast<uintptr_t>(bytes) % SizeOf(type.dtype) != 0) {
    MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type));
    std::memcpy(tensor.mutable_bytes(), bytes, size);
    return tensor;
  }
  return Tensor::Wrap(type, std::shared_ptr<const std::byte>(file.bytes, bytes));
}

absl::StatusOr<Tensor> TakeTensor(onnx::TensorProto& proto, ExternalData& external) {
  MILLRACE_ASSIGN_OR_RETURN(const TensorType type, TypeOf(proto));
  if (proto.has_segment()) return BadInputError("tensors in segments are not supported");
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    return FromExternal(type, proto, external);
  }
  if (proto.has_raw_data()) return FromRaw(type, *proto.mutable_raw_data());
  return FromTypedField(type, proto);
}

absl::StatusOr<Tensor> TakeSparseTensor(onnx::SparseTensorProto& proto, ExternalData& external) {
  MILLRACE_ASSIGN_OR_RETURN(const Tensor values, TakeTensor(*proto.mutable_values(), external));
  MILLRACE_ASSIGN_OR_RETURN(const Tensor indices, TakeTensor(*proto.mutable_indices(), external));
  if (values.shape().rank() != 1) {
    return BadInputError(StrCat("sparse values must have rank 1, found ", ToString(values.type())));
  }
  onnx::TensorProto dense;
  dense.set_data_type(proto.values().data_type());
  *dense.mutable_dims() = proto.dims();
  MILLRACE_ASSIGN_OR_RETURN(const TensorType type, TypeOf(dense));
  // A few bytes in a file are no reason to fill the memory with zeros.
  constexpr int64_t kFreeElements = 1 << 20, kMaxElementsPerValue = 1 << 12;
  const int64_t count = values.num_elements();
  if (NumElements(type.shape) > kFreeElements &&
      NumElements(type.shape) / kMaxElementsPerValue > count) {
    return BadInputError(StrCat("a sparse tensor ", ToString(type), " of ", count,
                                " values is too large to be stored densely"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int64_t> positions,
                            PositionsOf(indices, count, type.shape));
  MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type));
  std::memset(tensor.mutable_bytes(), 0, tensor.size_bytes());
  const int64_t size = SizeOf(type.dtype);
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(tensor.mutable_bytes() + positions[i] * size, values.bytes() + i * size, size);
  }
  return tensor;
}

void FillTensorProto(const std::string& name, const Tensor& tensor, onnx::TensorProto& proto) {
  proto.set_name(name);
  proto.set_data_type(ToOnnxType(tensor.dtype()));
  for (const int64_t dim : tensor.shape().dims()) proto.add_dims(dim);
  proto.set_raw_data(tensor.bytes(), tensor.size_bytes());
}

}  // namespace millrace
