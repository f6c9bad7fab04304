#include "graph/mesh.h"

#include <charconv>
#include <limits>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph/diagnostics.h"
#include "graph/strings.h"
#include "graph/types.h"

namespace millrace {
namespace {

constexpr std::string_view kReductions[] = {"sum", "max", "min", "prod", "mean"};

std::vector<std::string> SplitList(std::string_view text) {
  if (text.empty()) return {};
  return absl::StrSplit(AbslView(text), ',');
}

bool ParseInt(std::string_view text, int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool IsIdentifier(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (char c : name) {
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<AxisSharding> ParseAxisSharding(std::string_view what) {
  AxisSharding axis;
  if (what == "replicate") return axis;
  int64_t dim = 0;
  if (ParseInt(what, dim) && dim >= 0 && dim < kMaxRank) {
    axis.kind = AxisSharding::Kind::kShard;
    axis.dim = static_cast<int>(dim);
    return axis;
  }
  for (int r = 0; r < 5; ++r) {
    if (what == StrCat("partial(", kReductions[r], ")")) {
      axis.kind = AxisSharding::Kind::kPartial;
      axis.reduction = static_cast<Reduction>(r);
      return axis;
    }
  }
  return UsageError(StrCat("'", what, "' is not a sharding; expected a dim (0 to ", kMaxRank - 1,
                           "), 'replicate', or 'partial(sum|max|min|prod|mean)'"));
}

}  // namespace

int64_t Mesh::num_devices() const {
  int64_t n = 1;
  for (const MeshAxis& axis : axes) {
    if (__builtin_mul_overflow(n, axis.size, &n)) return std::numeric_limits<int64_t>::max();
  }
  return n;
}

int Mesh::FindAxis(std::string_view name) const {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

std::string_view ReductionName(Reduction reduction) {
  return kReductions[static_cast<int>(reduction)];
}

std::string ToString(const Mesh& mesh) {
  return absl::StrJoin(mesh.axes, ",", [](std::string* out, const MeshAxis& axis) {
    StrAppend(out, axis.name, "=", axis.size);
  });
}

absl::StatusOr<Mesh> ParseMesh(std::string_view text) {
  Mesh mesh;
  for (const std::string& part : SplitList(text)) {
    const size_t equals = part.find('=');
    MeshAxis axis;
    axis.name = part.substr(0, equals);
    if (equals == std::string::npos || !IsIdentifier(axis.name) ||
        !ParseInt(std::string_view(part).substr(equals + 1), axis.size) || axis.size < 1 ||
        axis.size > (1 << 20)) {
      return UsageError(
          StrCat("mesh axis '", part, "': expected name=size, as in \"data=2,tensor=4\""));
    }
    if (axis.name == "mb" || axis.name == "iter") {
      return UsageError(StrCat("mesh axis '", axis.name, "': this name has a meaning of its own"));
    }
    if (mesh.FindAxis(axis.name) >= 0) {
      return UsageError(StrCat("mesh axis '", axis.name, "' is given twice"));
    }
    mesh.axes.push_back(std::move(axis));
  }
  if (mesh.num_devices() > (int64_t{1} << 31)) return UsageError("the mesh has too many devices");
  return mesh;
}

std::string ToString(const Sharding& sharding, const Mesh& mesh) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < sharding.axes.size(); ++i) {
    const AxisSharding& axis = sharding.axes[i];
    if (axis.kind == AxisSharding::Kind::kShard) {
      parts.push_back(StrCat(mesh.axes[i].name, ":", axis.dim));
    } else if (axis.kind == AxisSharding::Kind::kPartial) {
      parts.push_back(StrCat(mesh.axes[i].name, ":partial(", ReductionName(axis.reduction), ")"));
    }
  }
  return absl::StrJoin(parts, ",");
}

absl::StatusOr<Sharding> ParseSharding(std::string_view text, const Mesh& mesh) {
  Sharding sharding;
  sharding.axes.resize(mesh.axes.size());
  std::vector<bool> seen(mesh.axes.size(), false);
  std::vector<std::string> names;
  for (const MeshAxis& axis : mesh.axes) names.push_back(axis.name);
  for (const std::string& part : SplitList(text)) {
    const size_t colon = part.find(':');
    if (colon == std::string::npos) {
      return UsageError(StrCat("sharding '", part, "': expected axis:dim, as in \"tensor:1\""));
    }
    const std::string name = part.substr(0, colon);
    const int axis = mesh.FindAxis(name);
    if (axis < 0) {
      const std::string hint = DidYouMean(name, names);
      return UsageError(StrCat("sharding '", part, "': the mesh has no axis '", name, "'",
                               hint.empty() ? "" : "; ", hint));
    }
    if (seen[axis]) return UsageError(StrCat("sharding names axis '", name, "' twice"));
    seen[axis] = true;
    MILLRACE_ASSIGN_OR_RETURN(sharding.axes[axis],
                              ParseAxisSharding(std::string_view(part).substr(colon + 1)));
  }
  return sharding;
}

}  // namespace millrace
