// Tensors as ONNX files hold them: raw bytes, typed fields, sparse, or in a file of their own.
#ifndef MILLRACE_OPS_ONNX_TENSOR_PROTO_H_
#define MILLRACE_OPS_ONNX_TENSOR_PROTO_H_

#include <map>
#include <optional>
#include <string>

#include "graph/files.h"
#include "graph/tensor.h"

namespace onnx {
class SparseTensorProto;
class TensorProto;
}  // namespace onnx

namespace millrace {

// TensorProto.DataType and ours. nullopt: ONNX has such a type, or will have, but Millrace does
// not.
std::optional<DType> FromOnnxType(int32_t data_type);
int32_t ToOnnxType(DType dtype);
// "string", "complex64", "float8e4m3fn"; "data type 99" for numbers without a name.
std::string OnnxTypeName(int32_t data_type);

// The files that hold a model's external data. Each is mapped once; none may lie outside the folder
// of the model.
class ExternalData {
 public:
  explicit ExternalData(std::string directory) : directory_(std::move(directory)) {}
  // Shares the mapping, or copies where the elements lie at odd places. `length` -1: what the type
  // needs.
  absl::StatusOr<Tensor> Get(const TensorType& type, const std::string& location, int64_t offset,
                             int64_t length);

 private:
  std::string directory_;
  std::map<std::string, MappedFile> files_;
};

// The data of `proto`, checked against its type and dims. Raw data are moved out of it, not copied.
// BadInputError says what is wrong, and not where.
absl::StatusOr<Tensor> TakeTensor(onnx::TensorProto& proto, ExternalData& external);
// Likewise, with zeros where it says nothing.
absl::StatusOr<Tensor> TakeSparseTensor(onnx::SparseTensorProto& proto, ExternalData& external);

// The reverse: name, type, dims and raw data.
void FillTensorProto(const std::string& name, const Tensor& tensor, onnx::TensorProto& proto);

}  // namespace millrace

#endif  // MILLRACE_OPS_ONNX_TENSOR_PROTO_H_
