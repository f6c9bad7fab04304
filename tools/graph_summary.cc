#include "tools/graph_summary.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "graph/strings.h"
#include "tools/output.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {
namespace {

void Count(const Value& value, ValueTotals& totals) {
  ++totals.count;
  if (!value.typed) return;
  totals.elements += NumElements(value.type.shape);
  totals.bytes += ByteSize(value.type);
}

void Count(const Graph& graph, GraphSummary& summary, std::map<std::string, OpSummary>& by_op) {
  for (const Value& value : graph.values) {
    if (value.kind == ValueKind::kParam) Count(value, summary.params);
    if (value.kind == ValueKind::kParam && value.trainable) Count(value, summary.trainable);
    if (value.kind == ValueKind::kConstant) Count(value, summary.constants);
    if (value.kind == ValueKind::kResult) Count(value, summary.results);
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    OpSummary& op = by_op[graph.nodes[i].op];
    const Work work = WorkOf(QueryFor(graph, NodeId(i)));
    ++op.nodes;
    op.work.flops += work.flops;
    op.work.bytes += work.bytes;
    summary.work.flops += work.flops;
    summary.work.bytes += work.bytes;
  }
  summary.nodes += static_cast<int64_t>(graph.nodes.size());
}

std::string TypeOf(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (!value.typed) return "?";
  return StrCat(value.bounded ? "at most " : "", ToString(value.type));
}

void AddValues(const Graph& graph, std::string label, const std::vector<ValueId>& values,
               Table& table) {
  for (ValueId id : values) {
    const Value& value = graph.value(id);
    const auto doc = graph.docs.find(id);
    table.Row({std::exchange(label, ""), value.name, TypeOf(graph, id),
               value.typed ? FormatBytes(static_cast<double>(ByteSize(value.type))) : "",
               doc == graph.docs.end() ? "" : doc->second});
  }
}

std::string Describe(const ValueTotals& totals) {
  return StrCat(FormatCount(totals.count), " with ", FormatPlural(totals.elements, "element"), ", ",
                FormatBytes(static_cast<double>(totals.bytes)));
}

Json ToJson(const ValueTotals& totals) {
  return {{"count", totals.count}, {"elements", totals.elements}, {"bytes", totals.bytes}};
}

Json ValuesToJson(const Graph& graph, const std::vector<ValueId>& values) {
  Json list = Json::array();
  for (ValueId id : values) {
    const Value& value = graph.value(id);
    Json entry = {{"name", value.name}};
    if (value.typed) {
      const auto dims = value.type.shape.dims();
      entry["dtype"] = std::string(DTypeName(value.type.dtype));
      entry["shape"] = std::vector<int64_t>(dims.begin(), dims.end());
      entry["bytes"] = ByteSize(value.type);
    }
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

GraphSummary SummarizeGraph(const Graph& graph) {
  GraphSummary summary;
  std::map<std::string, OpSummary> by_op;
  const std::vector<const Graph*> graphs = FlattenGraphs(graph);
  for (const Graph* g : graphs) Count(*g, summary, by_op);
  summary.nested_graphs = static_cast<int64_t>(graphs.size()) - 1;
  for (auto& [name, op] : by_op) {
    op.op = name;
    summary.ops.push_back(std::move(op));
  }
  std::stable_sort(summary.ops.begin(), summary.ops.end(), [](const auto& a, const auto& b) {
    return std::tie(b.work.flops, b.work.bytes) < std::tie(a.work.flops, a.work.bytes);
  });
  return summary;
}

std::string ToText(const GraphSummary& summary, const Graph& graph) {
  std::string text = StrCat("graph ", graph.name, graph.name.empty() ? "" : ": ",
                            FormatPlural(summary.nodes, "node"));
  if (summary.nested_graphs > 0) {
    StrAppend(&text, " in ", FormatPlural(summary.nested_graphs + 1, "graph"));
  }
  text += "\n\n";

  Table values({"", "", "", ">", ""});
  AddValues(graph, "inputs", graph.inputs, values);
  AddValues(graph, "outputs", graph.outputs, values);
  StrAppend(&text, values.ToString("  "), "\n");

  Table facts({"", ""});
  std::string label = "symbols";
  for (const Symbol& symbol : graph.symbols) {
    facts.Row({std::exchange(label, ""), StrCat(symbol.name, " = ", FormatCount(symbol.value))});
  }
  std::string params = Describe(summary.params);
  if (summary.trainable.count != summary.params.count) {
    StrAppend(&params, "; trainable: ", Describe(summary.trainable));
  }
  facts.Row({"params", params});
  if (summary.constants.count > 0) facts.Row({"constants", Describe(summary.constants)});
  facts.Row({"results", Describe(summary.results)});
  facts.Row({"work", StrCat(FormatSi(summary.work.flops, "FLOP"), " a step, ",
                            FormatBytes(summary.work.bytes), " moved by ops")});
  StrAppend(&text, facts.ToString("  "), "\n");

  Table ops({"op", ">nodes", ">FLOP", ">share", ">moved"});
  for (const OpSummary& op : summary.ops) {
    const double share = summary.work.flops > 0 ? op.work.flops / summary.work.flops : 0;
    ops.Row({op.op, FormatCount(op.nodes), FormatSi(op.work.flops, ""), FormatPercent(share),
             FormatBytes(op.work.bytes)});
  }
  text += ops.ToString("  ");
  return text;
}

Json ToJson(const GraphSummary& summary, const Graph& graph) {
  Json document = JsonHeader("millrace-graph-summary");
  document["name"] = graph.name;
  document["nodes"] = summary.nodes;
  document["nested_graphs"] = summary.nested_graphs;
  Json symbols = Json::object();
  for (const Symbol& symbol : graph.symbols) symbols[symbol.name] = symbol.value;
  document["symbols"] = std::move(symbols);
  document["inputs"] = ValuesToJson(graph, graph.inputs);
  document["outputs"] = ValuesToJson(graph, graph.outputs);
  document["params"] = ToJson(summary.params);
  document["trainable"] = ToJson(summary.trainable);
  document["constants"] = ToJson(summary.constants);
  document["results"] = ToJson(summary.results);
  document["flops"] = summary.work.flops;
  document["bytes_moved"] = summary.work.bytes;
  Json ops = Json::array();
  for (const OpSummary& op : summary.ops) {
    ops.push_back({{"op", op.op},
                   {"nodes", op.nodes},
                   {"flops", op.work.flops},
                   {"bytes_moved", op.work.bytes}});
  }
  document["ops"] = std::move(ops);
  return document;
}

}  // namespace millrace
