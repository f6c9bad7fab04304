#include "ops/einsum.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int kNumLetters = 52;

// Upper case before lower case, as characters go.
int LetterIndex(char c) { return c >= 'a' ? c - 'a' + kNumLetters / 2 : c - 'A'; }
char LetterAt(int index) {
  return static_cast<char>(index < kNumLetters / 2 ? 'A' + index : 'a' + index - kNumLetters / 2);
}

// One side of a comma, or what follows the arrow: letters, with "..." before letter `ellipsis`.
struct Subscripts {
  std::string letters;
  int ellipsis = -1;
};

absl::StatusOr<Subscripts> ParseSubscripts(std::string_view text) {
  Subscripts subscripts;
  for (size_t i = 0; i < text.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      subscripts.letters += text[i];
    } else if (text.substr(i, 3) == "..." && subscripts.ellipsis < 0) {
      subscripts.ellipsis = static_cast<int>(subscripts.letters.size());
      i += 2;
    } else {
      return BadInputError(StrCat("'", text,
                                  "' in the equation must be letters and at most one "
                                  "'...'"));
    }
  }
  return subscripts;
}

struct Equation {
  std::vector<Subscripts> inputs;
  Subscripts output;
  bool has_output = false;
};

absl::StatusOr<Equation> ParseEquation(std::string_view text) {
  std::string dense;
  for (char c : text) {
    if (c != ' ') dense += c;
  }
  std::string_view rest = dense;
  Equation equation;
  if (const size_t arrow = rest.find("->"); arrow != std::string_view::npos) {
    equation.has_output = true;
    MILLRACE_ASSIGN_OR_RETURN(equation.output, ParseSubscripts(rest.substr(arrow + 2)));
    rest = rest.substr(0, arrow);
  }
  while (true) {
    const size_t comma = std::min(rest.find(','), rest.size());
    MILLRACE_ASSIGN_OR_RETURN(Subscripts input, ParseSubscripts(rest.substr(0, comma)));
    equation.inputs.push_back(std::move(input));
    if (comma == rest.size()) return equation;
    rest = rest.substr(comma + 1);
  }
}

class Binder {
 public:
  explicit Binder(Equation equation) : equation_(std::move(equation)) { letters_.fill(-1); }

  absl::StatusOr<EinsumForm> Bind(std::span<const Shape> shapes) {
    if (equation_.inputs.size() != shapes.size()) {
      return BadInputError(StrCat("the equation has ", equation_.inputs.size(),
                                  " operands, the node ", shapes.size()));
    }
    MILLRACE_RETURN_IF_ERROR(CountEllipsis(shapes));
    for (int d = 0; d < ellipsis_; ++d) AddLabel(StrCat("dim ", d, " of '...'"));
    for (const Subscripts& input : equation_.inputs) {
      for (char c : input.letters) {
        int& label = letters_[LetterIndex(c)];
        if (label < 0) label = AddLabel(StrCat("'", std::string(1, c), "'"));
      }
    }
    for (size_t i = 0; i < shapes.size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(BindInput(static_cast<int>(i), shapes[i]));
    }
    if (!equation_.has_output) equation_.output = ImplicitOutput();
    MILLRACE_RETURN_IF_ERROR(BindOutput());
    return std::move(form_);
  }

 private:
  int AddLabel(std::string name) {
    form_.names.push_back(std::move(name));
    form_.sizes.push_back(1);
    return static_cast<int>(form_.sizes.size()) - 1;
  }

  absl::Status CountEllipsis(std::span<const Shape> shapes) {
    for (size_t i = 0; i < shapes.size(); ++i) {
      const Subscripts& input = equation_.inputs[i];
      const int rest = shapes[i].rank() - static_cast<int>(input.letters.size());
      if (rest < 0 || (rest > 0 && input.ellipsis < 0)) {
        return BadInputError(StrCat("the equation names ", input.letters.size(),
                                    " dims of operand ", i, ", which has ", shapes[i].rank()));
      }
      ellipsis_ = std::max(ellipsis_, rest);
    }
    return absl::OkStatus();
  }

  absl::Status BindInput(int i, const Shape& shape) {
    const Subscripts& input = equation_.inputs[i];
    const int dots = shape.rank() - static_cast<int>(input.letters.size());
    std::vector<int>& labels = form_.inputs.emplace_back();
    for (int d = 0; d < shape.rank(); ++d) {
      const bool in_dots = input.ellipsis >= 0 && d >= input.ellipsis && d < input.ellipsis + dots;
      const int label =
          in_dots ? ellipsis_ - dots + d - input.ellipsis
                  : letters_[LetterIndex(
                        input.letters[input.ellipsis >= 0 && d >= input.ellipsis ? d - dots : d])];
      const auto before = std::find(labels.begin(), labels.end(), label);
      int64_t& size = form_.sizes[label];
      const bool differs = before != labels.end()
                               ? shape[static_cast<int>(before - labels.begin())] != shape[d]
                               : shape[d] != 1 && size != 1 && size != shape[d];
      if (differs) {
        return BadInputError(
            StrCat(form_.names[label], " is ",
                   before != labels.end() ? shape[static_cast<int>(before - labels.begin())] : size,
                   " and, in dim ", d, " of operand ", i, ", ", shape[d]));
      }
      if (shape[d] != 1) size = shape[d];
      labels.push_back(label);
    }
    return absl::OkStatus();
  }

  Subscripts ImplicitOutput() const {
    std::array<int, kNumLetters> count{};
    for (const Subscripts& input : equation_.inputs) {
      for (char c : input.letters) ++count[LetterIndex(c)];
    }
    Subscripts output{.letters = "", .ellipsis = 0};
    for (int i = 0; i < kNumLetters; ++i) {
      if (count[i] == 1) output.letters += LetterAt(i);
    }
    return output;
  }

  absl::Status BindOutput() {
    const Subscripts& output = equation_.output;
    if (ellipsis_ > 0 && output.ellipsis < 0) {
      return BadInputError("operands have dims of '...', which the result does not name");
    }
    const int rank = ellipsis_ + static_cast<int>(output.letters.size());
    if (rank > kMaxRank) {
      return BadInputError(
          StrCat("the result would have ", rank, " dims, at most ", kMaxRank, " are possible"));
    }
    for (size_t i = 0; i <= output.letters.size(); ++i) {
      if (static_cast<int>(i) == output.ellipsis) {
        for (int d = 0; d < ellipsis_; ++d) form_.output.push_back(d);
      }
      if (i == output.letters.size()) break;
      const int label = letters_[LetterIndex(output.letters[i])];
      const std::string name(1, output.letters[i]);
      if (label < 0) {
        return BadInputError(StrCat("the result names '", name, "', which no operand has"));
      }
      if (std::find(form_.output.begin(), form_.output.end(), label) != form_.output.end()) {
        return BadInputError(StrCat("the result names '", name, "' twice"));
      }
      form_.output.push_back(label);
    }
    return absl::OkStatus();
  }

  Equation equation_;
  std::array<int, kNumLetters> letters_;  // labels; -1: no operand has it
  int ellipsis_ = 0;                      // dims of the longest "..."
  EinsumForm form_;
};

}  // namespace

absl::StatusOr<EinsumForm> BindEinsum(std::string_view equation, std::span<const Shape> shapes) {
  MILLRACE_ASSIGN_OR_RETURN(Equation parsed, ParseEquation(equation));
  return Binder(std::move(parsed)).Bind(shapes);
}

double NumPoints(const EinsumForm& form, std::span<const int> labels) {
  double points = 1;
  for (int label : labels) points *= static_cast<double>(form.sizes[label]);
  return points;
}

bool StaysSmall(const EinsumForm& form, std::span<const EinsumStep> steps, double elements) {
  return std::ranges::all_of(
      steps, [&](const EinsumStep& step) { return NumPoints(form, step.keep) <= elements; });
}

std::vector<EinsumStep> EinsumSteps(const EinsumForm& form) {
  const int num_labels = static_cast<int>(form.sizes.size());
  std::vector<int> last_use(num_labels, -1);  // the last operand that has it
  for (size_t i = 0; i < form.inputs.size(); ++i) {
    for (int label : form.inputs[i]) last_use[label] = static_cast<int>(i);
  }
  for (int label : form.output) last_use[label] = num_labels + static_cast<int>(form.inputs.size());
  std::vector<EinsumStep> steps;
  std::vector<bool> has(num_labels, false);
  for (size_t i = 0; i < form.inputs.size(); ++i) {
    EinsumStep& step = steps.emplace_back();
    for (int label : form.inputs[i]) has[label] = true;
    for (int label = 0; label < num_labels; ++label) {
      if (!has[label]) continue;
      step.points *= static_cast<double>(form.sizes[label]);
      has[label] = last_use[label] > static_cast<int>(i);
      if (has[label]) step.keep.push_back(label);
    }
  }
  steps.back().keep = form.output;
  return steps;
}

}  // namespace millrace
