#include "tools/run_report.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "graph/strings.h"
#include "tools/output.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {
namespace {

constexpr int64_t kSmallOutput = 16;  // elements; such outputs are shown in full

std::string Number(double value) { return absl::StrFormat("%.6g", value); }

std::string ElementText(const Tensor& tensor, int64_t i) {
  return IsFloat(tensor.dtype()) ? Number(tensor.AsDouble(i)) : StrCat(tensor.AsInt64(i));
}

struct Spread {
  double median = 0, min = 0, max = 0;
};
Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return {(values[(n - 1) / 2] + values[n / 2]) / 2, values.front(), values.back()};
}

std::string OutputsText(const std::vector<OutputReport>& outputs) {
  Table table({"output", "type", ">min", ">mean", ">max", ""});
  for (const OutputReport& output : outputs) {
    const Tensor& t = output.tensor;
    if (t.num_elements() <= kSmallOutput) continue;
    const TensorStats stats = StatsOf(t);
    table.Row({output.name, ToString(t.type()), Number(stats.min), Number(stats.mean),
               Number(stats.max),
               stats.not_finite > 0 ? StrCat(FormatCount(stats.not_finite), " not finite") : ""});
  }
  std::string text = table.empty() ? "" : table.ToString("  ") + "\n";
  Table small({"output", "type", "elements"});
  for (const OutputReport& output : outputs) {
    const Tensor& t = output.tensor;
    if (t.num_elements() > kSmallOutput) continue;
    std::string elements;
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      StrAppend(&elements, i > 0 ? " " : "", ElementText(t, i));
    }
    small.Row({output.name, ToString(t.type()), elements});
  }
  if (!small.empty()) StrAppend(&text, small.ToString("  "), "\n");
  return text;
}

std::string ExpectText(const ExpectReport& e) {
  const Comparison& c = e.comparison;
  const std::string errors = StrCat("largest error ", Number(c.max_absolute_error), ", relative ",
                                    Number(c.max_relative_error));
  const std::string tolerance = StrCat("rtol ", Number(e.rtol), ", atol ", Number(e.atol));
  if (c.mismatches == 0) return StrCat("as expected (", errors, "; ", tolerance, ")");
  const std::string place = IndexText(e.actual.shape(), c.worst);
  return StrCat(FormatCount(c.mismatches), " of ", FormatPlural(c.elements, "element"),
                " not as expected (", tolerance, "), worst at ", place, ": expected ",
                ElementText(e.expected, c.worst), ", found ", ElementText(e.actual, c.worst));
}

std::string AccuracyText(const Accuracy& accuracy) {
  const double fraction =
      accuracy.rows == 0 ? 0
                         : static_cast<double>(accuracy.right) / static_cast<double>(accuracy.rows);
  return StrCat(FormatPercent(fraction), " (", FormatCount(accuracy.right), " of ",
                FormatCount(accuracy.rows), ")");
}

std::string StepText(const RunReport& report) {
  const Spread step = SpreadOf(report.step_us);
  std::string text = StrCat(FormatDuration(step.median), " a step");
  if (report.step_us.size() > 1) {
    StrAppend(&text, ", median of ", FormatCount(static_cast<int64_t>(report.step_us.size())), " (",
              FormatDuration(step.min), " to ", FormatDuration(step.max), ")");
  }
  // With labels it is known that the rows are samples.
  if (!report.labels.empty() && report.labels[0].all.rows > 0) {
    const double rows = static_cast<double>(report.labels[0].all.rows);
    StrAppend(&text, "; ", FormatDuration(step.median / rows), " a row");
  }
  return text;
}

std::string PredictionText(const RunReport& report) {
  const PredictedStep& predicted = report.predicted;
  const double median = SpreadOf(report.step_us).median;
  if (predicted.step_us <= 0) return StrCat("nothing: ", predicted.basis);
  std::string text = StrCat(FormatDuration(predicted.step_us), " a step");
  if (median > 0) {
    const double error = predicted.step_us / median - 1;
    StrAppend(&text, ", ", FormatPercent(std::abs(error)), error < 0 ? " below" : " above",
              " what was measured");
  }
  return StrCat(text, " (", predicted.basis, ")");
}

Json ToJson(const Accuracy& accuracy) {
  return {{"right", accuracy.right}, {"rows", accuracy.rows}};
}

Json ToJson(const OutputReport& output) {
  const auto dims = output.tensor.shape().dims();
  const TensorStats stats = StatsOf(output.tensor);
  return {{"name", output.name},
          {"dtype", std::string(DTypeName(output.tensor.dtype()))},
          {"shape", std::vector<int64_t>(dims.begin(), dims.end())},
          {"min", stats.min},
          {"mean", stats.mean},
          {"max", stats.max},
          {"not_finite", stats.not_finite}};
}

Json ToJson(const ExpectReport& e) {
  return {{"name", e.name},
          {"ok", e.comparison.mismatches == 0},
          {"rtol", e.rtol},
          {"atol", e.atol},
          {"elements", e.comparison.elements},
          {"mismatches", e.comparison.mismatches},
          {"max_absolute_error", e.comparison.max_absolute_error},
          {"max_relative_error", e.comparison.max_relative_error}};
}

Json ToJson(const LabelsReport& labels) {
  Json json = {{"name", labels.name}, {"all", ToJson(labels.all)}};
  if (labels.every > 0) json["held_out"] = ToJson(labels.held_out);
  return json;
}

template <typename T>
Json ListToJson(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(ToJson(item));
  return list;
}

}  // namespace

std::string ToText(const RunReport& report) {
  const std::string devices =
      absl::StrJoin(report.device_bytes, ", ", [](std::string* out, const auto& entry) {
        StrAppend(out, entry.first, " (", FormatBytes(static_cast<double>(entry.second)), ")");
      });
  std::string text = StrCat("ran ", report.plan, report.plan.empty() ? "" : " ", "on ", devices,
                            "\n\n", OutputsText(report.outputs));
  Table facts({"", ""});
  for (const ExpectReport& expect : report.expects) facts.Row({expect.name, ExpectText(expect)});
  for (const LabelsReport& labels : report.labels) {
    facts.Row({"accuracy", AccuracyText(labels.all)});
    if (labels.every > 0) {
      facts.Row({"held out", StrCat(AccuracyText(labels.held_out), ", rows with index % ",
                                    labels.every, " = ", labels.remainder)});
    }
  }
  facts.Row({"time", StepText(report)});
  facts.Row({"predicted", PredictionText(report)});
  facts.Row({"before", StrCat("load and plan ", FormatDuration(report.load_us), ", prepare ",
                              FormatDuration(report.prepare_us))});
  StrAppend(&text, facts.ToString("  "));
  if (!report.profile.empty()) StrAppend(&text, "\n", ToText(report.profile));
  return text;
}

Json ToJson(const RunReport& report) {
  const Spread step = SpreadOf(report.step_us);
  Json document = JsonHeader("millrace-run");
  document["plan"] = report.plan;
  document["hash"] = report.hash;
  document["device_bytes"] = report.device_bytes;
  document["load_us"] = report.load_us;
  document["prepare_us"] = report.prepare_us;
  document["step_us"] = {
      {"median", step.median}, {"min", step.min}, {"max", step.max}, {"all", report.step_us}};
  document["predicted"] = {{"step_us", report.predicted.step_us},
                           {"basis", report.predicted.basis}};
  document["outputs"] = ListToJson(report.outputs);
  document["expects"] = ListToJson(report.expects);
  document["labels"] = ListToJson(report.labels);
  if (!report.profile.empty()) document["profile"] = ToJson(report.profile);
  return document;
}

absl::Status CheckExpectations(const RunReport& report) {
  std::string message;
  for (const ExpectReport& expect : report.expects) {
    if (expect.comparison.mismatches == 0) continue;
    StrAppend(&message, message.empty() ? "" : "\n", "--expect ", expect.name, ": ",
              ExpectText(expect));
  }
  return message.empty() ? absl::OkStatus() : CheckFailedError(message);
}

}  // namespace millrace
