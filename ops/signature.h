// A node against its op's signature: attributes and their kinds, operand counts, element types.
#ifndef MILLRACE_OPS_SIGNATURE_H_
#define MILLRACE_OPS_SIGNATURE_H_

#include <span>
#include <string>
#include <vector>

#include "ops/op_def.h"

namespace millrace {

// One thing wrong with a node; whoever reports it adds the node's name, place and operands.
struct SignatureFault {
  std::string pointer = {};  // below the node: "/attrs/axis", "/inputs/1"
  std::string message = {};  // "attribute 'axis' has the wrong kind"
  std::string expected = {}, found = {}, hint = {};
  bool about_operands = false;  // showing all operands with their types helps
};

// Unknown attributes, wrong kinds, values outside the choices, required ones that are missing.
// Normalizes the rest to the schema's kinds: 1 becomes 1.0 for a float, true for a bool.
void CheckAttrs(const OpDef& op, Attrs& attrs, std::vector<SignatureFault>& faults);

// Too few, too many, or a required one omitted (nullptr).
void CheckOperandCounts(const OpDef& op, std::span<const TensorType* const> inputs, int num_outputs,
                        std::vector<SignatureFault>& faults);

// Element types, and that operands with the same letter agree. Counts must be right.
void CheckOperandTypes(const OpDef& op, std::span<const TensorType* const> inputs,
                       std::vector<SignatureFault>& faults);

// The spec of operand i of `operands` (the last one serves all variadic operands); nullptr when
// there is none.
const OperandSpec* OperandAt(std::span<const OperandSpec> operands, int i);

// "A", or "captures[3]" for a variadic operand.
std::string OperandName(std::span<const OperandSpec> operands, int i);

// `attrs` with the defaults of the op's schema filled in. Returns `attrs` itself when it lacks
// nothing, a shared table when it is empty; `storage` holds the result otherwise.
const Attrs& WithDefaults(const OpDef& op, const Attrs& attrs, Attrs& storage);

}  // namespace millrace

#endif  // MILLRACE_OPS_SIGNATURE_H_
