// The plan file: "millrace-plan" 1.0 JSON, complete and canonical: same plan, same bytes, in every
// process. The embedded graph is a graph file in its place. ToText is for reading and diffs.
#ifndef MILLRACE_GRAPH_PLAN_JSON_H_
#define MILLRACE_GRAPH_PLAN_JSON_H_

#include <string>

#include "graph/json_document.h"
#include "graph/plan.h"
#include "graph/status.h"

namespace millrace {

std::string PlanToJson(const PlanBundle& plan);
// Structure and ids are validated (an id out of range is an error with its place); whether the plan
// is right is the checker's to say.
absl::StatusOr<PlanBundle> ParsePlanJson(std::string json, std::string file);
absl::StatusOr<PlanBundle> ParsePlanJson(const JsonDocument& document);
absl::StatusOr<PlanBundle> LoadPlan(const std::string& path);
// Weight files are meant to lie beside `path`; SaveWeightsBeside (graph_json.h) puts them there.
absl::Status SavePlan(const PlanBundle& plan, const std::string& path);

// One line per buffer, slice and instruction, names instead of ids.
std::string ToText(const PlanBundle& plan);

// "launch mm (onednn.jit) h <- x, fc.w" with slices as buffer[begin,end): one instruction, as error
// messages and ToText name it.
std::string DescribeInstruction(const PlanBundle& plan, const Program& program,
                                const Instruction& instruction);

// SHA-256 of PlanToJson, hex. Ranks compare it before a run.
std::string ContentHash(const PlanBundle& plan);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_PLAN_JSON_H_
