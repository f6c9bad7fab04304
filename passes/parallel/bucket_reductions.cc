// One walk in node order. Each kind of reduction (axes, reduction, dtype) has at most one open
// bucket; it takes the next node of its kind if that still fits and stands before the first reader
// of any result in the bucket, and is closed otherwise. A closed bucket of several nodes becomes,
// in place of its last one,
//
//   Concat(flat operands) -> comm.AllReduce -> Split -> the results, in their shapes
//
// of which memory planning lets the Concat and the Split share the bytes of the collective.
#include "passes/parallel/bucket_reductions.h"

#include <algorithm>
#include <map>
#include <utility>

#include "graph/builder.h"
#include "graph/strings.h"
#include "ops/infer.h"
#include "ops/op_def.h"

namespace millrace {
namespace {

struct ReductionBucket {
  std::vector<NodeId> nodes;
  int64_t bytes = 0;
  int32_t first_reader = 0;
};

class Bucketing {
 public:
  Bucketing(Graph& graph, int64_t bucket_bytes) : graph_(graph), bucket_bytes_(bucket_bytes) {}

  // The buckets of several nodes, by their last node.
  std::map<NodeId, std::vector<NodeId>> Find() {
    const auto readers = ConsumersOf(graph_);
    std::vector<uint8_t> awaited(graph_.nodes.size(), 0);
    for (const Node& node : graph_.nodes) {
      for (const NodeId before : node.after) awaited[before.index] = 1;
    }
    std::map<std::pair<std::string, DType>, ReductionBucket> open;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      const OpDef* op = FindOp(node.op);
      if (op == nullptr || op->traits.comm != CommKind::kAllReduce) continue;
      if (!node.after.empty() || awaited[n] != 0 || !node.outputs[0].valid()) continue;
      const TensorType& type = graph_.value(node.outputs[0]).type;
      int32_t reader = static_cast<int32_t>(graph_.nodes.size());
      for (const NodeId r : readers[node.outputs[0].index]) reader = std::min(reader, r.index);
      ReductionBucket& bucket = open[{AttrsKey(node.attrs), type.dtype}];
      if (!bucket.nodes.empty() && (bucket.bytes + ByteSize(type) > bucket_bytes_ ||
                                    bucket.first_reader <= static_cast<int32_t>(n))) {
        Close(bucket);
      }
      if (bucket.nodes.empty()) bucket.first_reader = reader;
      bucket.nodes.push_back(NodeId(n));
      bucket.bytes += ByteSize(type);
      bucket.first_reader = std::min(bucket.first_reader, reader);
    }
    for (auto& [key, bucket] : open) Close(bucket);
    return std::move(found_);
  }

 private:
  static std::string AttrsKey(const Attrs& attrs) {
    std::string key;
    if (const AttrValue* axes = attrs.Find("axis")) {
      if (const auto* names = std::get_if<std::vector<std::string>>(axes)) {
        for (const std::string& name : *names) StrAppend(&key, name, ",");
      } else if (const auto* name = std::get_if<std::string>(axes)) {
        StrAppend(&key, *name, ",");
      }
    }
    return StrCat(key, ":", attrs.String("op", "sum"));
  }

  void Close(ReductionBucket& bucket) {
    if (bucket.nodes.size() > 1) found_[bucket.nodes.back()] = bucket.nodes;
    bucket = {};
  }

  Graph& graph_;
  const int64_t bucket_bytes_;
  std::map<NodeId, std::vector<NodeId>> found_;
};

// The graph's nodes anew, with buckets in place of what is in them.
class BucketWriter {
 public:
  explicit BucketWriter(Graph& graph) : builder_(std::move(graph)) {}

  Graph Write(const std::map<NodeId, std::vector<NodeId>>& buckets) {
    std::vector<Node> before = std::exchange(builder_.graph().nodes, {});
    std::vector<uint8_t> joined(before.size(), 0);
    for (const auto& [last, nodes] : buckets) {
      for (const NodeId id : nodes) joined[id.index] = 1;
    }
    std::vector<NodeId> moved(before.size());
    for (size_t n = 0; n < before.size(); ++n) {
      const auto bucket = buckets.find(NodeId(n));
      if (bucket != buckets.end()) WriteBucket(before, bucket->second);
      if (joined[n] != 0) continue;
      moved[n] = NodeId(builder_.graph().nodes.size());
      for (NodeId& after : before[n].after) after = moved[after.index];
      for (const ValueId out : before[n].outputs) {
        if (out.valid()) builder_.graph().value(out).producer = moved[n];
      }
      builder_.graph().nodes.push_back(std::move(before[n]));
    }
    return std::move(builder_).Build();
  }

 private:
  void WriteBucket(const std::vector<Node>& nodes, const std::vector<NodeId>& bucket) {
    Graph& g = builder_.graph();
    std::vector<ValueId> flat;
    std::vector<int64_t> sizes;
    std::vector<std::string> origin;
    for (const NodeId id : bucket) {
      const Node& node = nodes[id.index];
      sizes.push_back(NumElements(g.value(node.outputs[0]).type.shape));
      const ValueId dims = Dims("flat.dims", {sizes.back()});
      flat.push_back(
          builder_.Op("Reshape", {node.inputs[0], dims}, {}, StrCat(node.name, ".flat")));
      origin.push_back(node.name);
    }
    Attrs axis;
    axis.Set("axis", int64_t{0});
    const ValueId all = builder_.Op("Concat", std::move(flat), axis, "bucket");
    const ValueId sum =
        builder_.Op(nodes[bucket[0].index].op, {all}, nodes[bucket[0].index].attrs, "bucket.sum");
    g.nodes.back().origin = std::move(origin);
    const Node& split = builder_.AddNode("Split", {sum, Dims("bucket.sizes", sizes)}, axis,
                                         "bucket.parts", static_cast<int>(bucket.size()));
    const std::vector<ValueId> parts = split.outputs;
    for (size_t i = 0; i < bucket.size(); ++i) {
      const ValueId out = nodes[bucket[i].index].outputs[0];
      const auto shape = g.value(out).type.shape.dims();
      const ValueId dims = Dims("bucket.dims", {shape.begin(), shape.end()});
      builder_.AddNode("Reshape", {parts[i], dims}, {}, StrCat(nodes[bucket[i].index].name, ".of"),
                       /*num_outputs=*/0);
      g.nodes.back().outputs = {out};
      g.value(out).producer = NodeId(g.nodes.size() - 1);
    }
  }

  ValueId Dims(std::string_view name, const std::vector<int64_t>& dims) {
    return builder_.Constant(name,
                             Tensor::FromSpan<int64_t>({static_cast<int64_t>(dims.size())}, dims));
  }

  GraphBuilder builder_;
};

}  // namespace

absl::Status BucketReductions(Graph& graph, int64_t bucket_bytes,
                              std::vector<RewriteRecord>& records) {
  const std::map<NodeId, std::vector<NodeId>> buckets = Bucketing(graph, bucket_bytes).Find();
  if (buckets.empty()) return absl::OkStatus();
  for (const auto& [last, nodes] : buckets) {
    RewriteRecord record = {"shard", "bucket", {}, "", true};
    for (const NodeId id : nodes) record.nodes.push_back(graph.node(id).name);
    record.result = StrCat("one reduction of ", nodes.size(), " values");
    records.push_back(std::move(record));
  }
  graph = BucketWriter(graph).Write(buckets);
  return InferTypes(graph);
}

}  // namespace millrace
