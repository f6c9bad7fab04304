#include "graph/query_key.h"

#include "absl/strings/str_join.h"
#include "graph/graph_json_parts.h"
#include "graph/strings.h"

namespace millrace {
namespace {

void AppendTypes(std::string* to, const std::vector<std::optional<TensorType>>& types) {
  for (const std::optional<TensorType>& type : types) {
    to->append(type.has_value() ? ToString(*type) : "_");
    to->push_back(',');
  }
}

}  // namespace

std::string QueryKey(const NodeQuery& query) {
  std::string key = query.op;
  AppendAttrs(&key, query.attrs);
  key.push_back('(');
  AppendTypes(&key, query.inputs);
  key.append(")->(");
  AppendTypes(&key, query.outputs);
  key.push_back(')');
  for (const auto& [input, elements] : query.known) {
    StrAppend(&key, " ", input, "=", absl::StrJoin(elements, "|"));
  }
  return key;
}

std::string_view OpOfQueryKey(std::string_view key) { return key.substr(0, key.find('{')); }

std::vector<DType> DTypesOfQueryKey(std::string_view key) {
  std::vector<DType> dtypes;
  // Attributes may hold anything, operands no brace.
  const size_t operands = key.rfind("}(");
  if (operands == std::string_view::npos) return dtypes;
  key.remove_prefix(operands + 2);
  // Each shape's bracket follows its type, which follows a parenthesis or comma.
  for (size_t bracket = key.find('['); bracket != std::string_view::npos;
       bracket = key.find('[', bracket + 1)) {
    const size_t before = key.find_last_of("(,", bracket);
    const size_t begin = before == std::string_view::npos ? 0 : before + 1;
    const std::optional<DType> dtype = ParseDType(key.substr(begin, bracket - begin));
    if (dtype.has_value()) dtypes.push_back(*dtype);
  }
  return dtypes;
}

}  // namespace millrace
