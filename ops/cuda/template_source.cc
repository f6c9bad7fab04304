#include "ops/cuda/template_source.h"

#include "graph/strings.h"

namespace millrace {

TemplateParam InputOf(const NodeQuery& query, size_t i) {
  return {InputParam(query, i), query.inputs[i]->dtype, true};
}

TemplateParam OutputOf(const NodeQuery& query, size_t i) {
  return {OutputParam(query, i), query.outputs[i]->dtype, true};
}

TemplateParam Absent(DType dtype) { return {{}, dtype, false}; }

CudaLaunch LaunchOf(const TemplateCall& call) {
  std::string parameters, arguments;
  std::vector<CudaParam> params;
  for (const TemplateParam& each : call.params) {
    const bool reads_only = !each.param.writes;
    const std::string type = StrCat(reads_only ? "const " : "", DeviceType(each.dtype), "*");
    StrAppend(&arguments, arguments.empty() ? "" : ", ");
    if (!each.is_there) {
      StrAppend(&arguments, "static_cast<", type, ">(nullptr)");
      continue;
    }
    const std::string name = StrCat("p", params.size());
    StrAppend(&parameters, parameters.empty() ? "" : ", ", type, " ", name);
    StrAppend(&arguments, name);
    params.push_back(each.param);
  }
  CudaLaunch launch = NamedLaunch(
      call.name, StrCat("#include \"", call.header, "\"\nusing namespace millrace;\n",
                        "extern \"C\" __global__ void __launch_bounds__(", call.threads, ") ",
                        kFunctionName, "(", parameters, ") {\n", call.constants, "  ", call.callee,
                        "(", arguments, call.more_arguments, ");\n}\n"));
  launch.blocks = static_cast<uint32_t>(call.blocks);
  launch.threads = static_cast<uint32_t>(call.threads);
  launch.params = std::move(params);
  return launch;
}

int64_t BlocksFor(int64_t count) { return (count + 255) / 256; }

std::string ListSource(std::span<const int64_t> values) {
  std::string list = "{";
  for (const int64_t value : values) StrAppend(&list, list.size() > 1 ? ", " : "", value);
  return StrCat(list, "}");
}

std::string WindowSource(const Window& w) {
  return StrCat("{.in = ", ListSource(w.in), ", .out = ", ListSource(w.out),
                ", .kernel = ", ListSource(w.kernel), ", .strides = ", ListSource(w.strides),
                ", .dilations = ", ListSource(w.dilations), ", .pads = ", ListSource(w.pads_begin),
                ", .pads_end = ", ListSource(w.pads_end), "}");
}

}  // namespace millrace
