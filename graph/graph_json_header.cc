// What a graph file says about the graph as a whole.
#include "graph/graph_json_parts.h"
#include "graph/strings.h"

namespace millrace {
namespace {

bool IsWeightPath(std::string_view path) {
  if (path.starts_with('/') || !path.ends_with(".safetensors")) return false;
  if (path.find_first_of(std::string_view("\\\0", 2)) != path.npos) return false;
  return StrCat("/", path, "/").find("/../") == std::string::npos;
}

bool IsSha256(std::string_view hash) {
  return hash.size() == 64 && hash.find_first_not_of("0123456789abcdef") == hash.npos;
}

}  // namespace

std::string ReadProducer(const JsonReader& reader) {
  if (!reader.IsObject()) reader.Error("wrong kind of value", "an object", reader.Describe());
  return reader.document().CompactText(reader.value());
}

std::map<std::string, int64_t> ReadOpset(const JsonReader& reader) {
  std::map<std::string, int64_t> opset;
  reader.ForEachMember([&](std::string_view domain, const JsonReader& version) {
    if (const auto v = version.Int(1, 1 << 30)) opset[std::string(domain)] = *v;
  });
  return opset;
}

Mesh ReadMesh(const JsonReader& reader) {
  const std::optional<std::string> text = reader.String(1024, /*allow_empty=*/true);
  if (!text.has_value()) return {};
  absl::StatusOr<Mesh> mesh = ParseMesh(*text);
  if (mesh.ok()) return *std::move(mesh);
  reader.Error(StdView(mesh.status().message()));
  return {};
}

std::vector<WeightFile> ReadWeightFiles(const JsonReader& reader) {
  std::vector<WeightFile> files;
  reader.ForEachMember([&](std::string_view key, const JsonReader& member) {
    member.OnlyKeys({"path", "sha256"}, /*extensions=*/false);
    WeightFile& file = files.emplace_back();
    file.key = std::string(key);
    if (key.empty()) member.Error("a weight file has no key");
    if (const auto path = member.Required("path")) {
      file.path = path->String(4096).value_or("");
      if (!file.path.empty() && !IsWeightPath(file.path)) {
        path->Error("not a path of weights",
                    "a relative path without '..' that ends in \".safetensors\"", path->Describe());
      }
    }
    if (const auto sha256 = member.Optional("sha256")) {
      file.sha256 = sha256->String().value_or("");
      if (!IsSha256(file.sha256)) {
        sha256->Error("not a SHA-256", "64 lower-case hex digits", sha256->Describe());
      }
    }
  });
  return files;
}

std::vector<Extension> ReadExtensions(const JsonReader& reader) {
  std::vector<Extension> extensions;
  reader.ForEachMember([&](std::string_view key, const JsonReader& member) {
    if (!key.starts_with("x-")) return;
    extensions.push_back({std::string(key), reader.document().CompactText(member.value())});
  });
  return extensions;
}

}  // namespace millrace
