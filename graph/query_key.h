// The text that identifies a NodeQuery: "MatMul{}(f32[8,64],f32[64,8],)->(f32[8,8],)", with what is
// known of operands behind it: " 1=0|-1". Equal queries have equal keys and others have not, so files
// and maps are keyed and ordered by it.
#ifndef MILLRACE_GRAPH_QUERY_KEY_H_
#define MILLRACE_GRAPH_QUERY_KEY_H_

#include <string>
#include <string_view>
#include <vector>

#include "graph/target.h"

namespace millrace {

std::string QueryKey(const NodeQuery& query);

// The op's name in a key: what stands before the attributes.
std::string_view OpOfQueryKey(std::string_view key);

// The element types of the operands that are there, inputs first. What is no key gives what can be
// made out.
std::vector<DType> DTypesOfQueryKey(std::string_view key);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_QUERY_KEY_H_
