// Saving a graph as files: the JSON and, beside it, <stem>.safetensors for data too large to stand
// in the JSON.
//
// Data that come from files already stay there when the new file lies in the same folder, because
// paths are relative to it. Otherwise, and when such a file is the one about to be written, they
// are copied: what is saved can be loaded wherever it was saved to.
#include <filesystem>
#include <set>

#include "graph/files.h"
#include "graph/graph_json.h"
#include "graph/safetensors.h"
#include "graph/strings.h"
#include "graph/weights.h"

namespace millrace {
namespace {

constexpr int64_t kMaxSmallElements = 1024;  // of data that stay inline

std::string_view WithoutExtension(std::string_view path) {
  const size_t name = path.rfind('/') == path.npos ? 0 : path.rfind('/') + 1;
  const size_t dot = path.rfind('.');
  return dot == path.npos || dot <= name ? path : path.substr(0, dot);
}

bool SameFolder(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::equivalent(a.empty() ? "." : a, b.empty() ? "." : b, error) && !error;
}

class WeightMover {
 public:
  // `file`: the new weight file, relative to the graph's folder. `keep_files`: other weight files
  // can still be reached from there.
  WeightMover(std::string file, bool keep_files)
      : file_(std::move(file)), keep_files_(keep_files) {}

  // Moves the data of `graph` and its nested graphs; names in the file begin with `prefix`.
  absl::Status Move(Graph& graph, const std::string& prefix) {
    const Graph before = WithoutNodes(graph);  // keys and paths as they were, for the store
    WeightStore store(before);
    const std::string key = FreeKey(graph);
    bool moved = false;
    for (const auto* ids : {&graph.params, &graph.constants}) {
      for (const ValueId id : *ids) {
        DataSource& data = graph.data[graph.value(id).data];
        if (!MustMove(graph, data)) continue;
        const std::string name = UniqueName(prefix + graph.value(id).name);
        MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, store.Get(id));
        tensors_.emplace_back(name, std::move(tensor));
        data = DataSource();
        data.kind = DataSource::Kind::kFile;
        data.file = key;
        data.tensor_name = name;
        moved = true;
      }
    }
    DropLostFiles(graph);
    if (moved) graph.weight_files.push_back({key, file_, ""});
    for (Node& node : graph.nodes) {
      for (Subgraph& sub : node.subgraphs) {
        MILLRACE_RETURN_IF_ERROR(Move(sub.graph, StrCat(prefix, node.name, "/", sub.name, "/")));
      }
    }
    return absl::OkStatus();
  }

  const std::vector<std::pair<std::string, Tensor>>& tensors() const { return tensors_; }

 private:
  static Graph WithoutNodes(const Graph& graph) {
    Graph copy;
    copy.directory = graph.directory;
    copy.weight_files = graph.weight_files;
    copy.values = graph.values;
    copy.data = graph.data;
    return copy;
  }

  bool MustMove(const Graph& graph, const DataSource& data) const {
    if (data.kind == DataSource::Kind::kInline || data.kind == DataSource::Kind::kBase64) {
      return data.tensor.num_elements() > kMaxSmallElements;
    }
    if (data.kind != DataSource::Kind::kFile) return false;
    if (!keep_files_) return true;
    for (const WeightFile& file : graph.weight_files) {
      if (file.key == data.file) return file.path == file_;
    }
    return false;
  }

  static std::string FreeKey(const Graph& graph) {
    std::set<std::string> taken;
    for (const WeightFile& file : graph.weight_files) taken.insert(file.key);
    std::string key = "weights";
    for (int i = 1; taken.contains(key); ++i) key = StrCat("weights_", i);
    return key;
  }

  std::string UniqueName(const std::string& name) {
    std::string unique = name;
    for (int i = 1; !names_.insert(unique).second; ++i) unique = StrCat(name, "_", i);
    return unique;
  }

  // Files that cannot be reached any more, or are about to be another one.
  void DropLostFiles(Graph& graph) const {
    std::erase_if(graph.weight_files,
                  [&](const WeightFile& file) { return !keep_files_ || file.path == file_; });
  }

  const std::string file_;
  const bool keep_files_;
  std::vector<std::pair<std::string, Tensor>> tensors_;
  std::set<std::string> names_ = {"__metadata__"};
};

}  // namespace

absl::StatusOr<Graph> SaveWeightsBeside(const Graph& graph, const std::string& path) {
  const std::string weights = StrCat(WithoutExtension(path), ".safetensors");
  const std::string folder = DirectoryOf(path);
  const std::string relative =
      weights.substr(folder.empty() || folder == "/" ? folder.size() : folder.size() + 1);
  Graph saved = graph;
  WeightMover mover(relative, SameFolder(folder, graph.directory));
  MILLRACE_RETURN_IF_ERROR(mover.Move(saved, ""));
  if (!mover.tensors().empty()) {
    MILLRACE_RETURN_IF_ERROR(WriteSafetensors(weights, mover.tensors()));
  }
  return saved;
}

absl::Status SaveGraph(const Graph& graph, const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const Graph saved, SaveWeightsBeside(graph, path));
  return WriteFileAtomically(path, GraphToJson(saved));
}

}  // namespace millrace
