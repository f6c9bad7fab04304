// The values of a JSON document, for tests that put a fault in each place.
#ifndef MILLRACE_TESTS_GRAPH_JSON_VALUES_H_
#define MILLRACE_TESTS_GRAPH_JSON_VALUES_H_

#include <vector>

#include "graph/json_document.h"

namespace millrace {

inline void CollectValues(const JsonDocument& document, const JsonValue& value,
                          std::vector<const JsonValue*>& all) {
  all.push_back(&value);
  for (const JsonValue* v = document.FirstChild(value); v != nullptr; v = document.Next(*v)) {
    CollectValues(document, *v, all);
  }
}

// In the order of the text.
inline std::vector<const JsonValue*> AllValues(const JsonDocument& document) {
  std::vector<const JsonValue*> all;
  CollectValues(document, document.root(), all);
  return all;
}

}  // namespace millrace

#endif  // MILLRACE_TESTS_GRAPH_JSON_VALUES_H_
