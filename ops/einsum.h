// Einstein summation: an equation bound to operand shapes. The definition of Einsum, its gradient
// and whoever turns it into products work on labels, which are small numbers here.
#ifndef MILLRACE_OPS_EINSUM_H_
#define MILLRACE_OPS_EINSUM_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/status.h"
#include "graph/types.h"

namespace millrace {

// The dims of "..." are labels too: one for each of the longest one, aligned at its end.
struct EinsumForm {
  std::vector<int64_t> sizes;            // by label
  std::vector<std::string> names;        // by label, for messages: "i", "dim 0 of '...'"
  std::vector<std::vector<int>> inputs;  // labels of each operand's dims
  std::vector<int> output;               // labels of the result's dims, each once
};

// Without "->" the result has the dims of "..." and then, in alphabetical order, the labels that
// occur once. A dim of 1 stands for any size of its label. BadInputError says what is wrong with
// the equation, or how it does not fit the shapes.
absl::StatusOr<EinsumForm> BindEinsum(std::string_view equation, std::span<const Shape> shapes);

// Operands are multiplied in one at a time; a label is summed over as soon as no later operand and
// not the result has it.
struct EinsumStep {
  std::vector<int> keep;  // labels of the product so far, afterwards; the last: the result's
  double points = 1;      // multiply-adds
};
std::vector<EinsumStep> EinsumSteps(const EinsumForm& form);

double NumPoints(const EinsumForm& form, std::span<const int> labels);
// No product in between has more than `elements`, say as many as operands and result together.
bool StaysSmall(const EinsumForm& form, std::span<const EinsumStep> steps, double elements);

}  // namespace millrace

#endif  // MILLRACE_OPS_EINSUM_H_
