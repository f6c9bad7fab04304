// Cast: floats are rounded to nearest even, once; a float that is out of an integer's range becomes
// the nearest integer there is, NaN becomes 0; integers wrap around; anything but 0 is true.
#include <limits>

#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

template <typename To, typename From>
To Convert(From from) {
  if constexpr (kIsHalf<From>) {
    return Convert<To>(static_cast<float>(from));
  } else if constexpr (std::is_same_v<To, bool>) {
    return from != 0;
  } else if constexpr (kIsHalf<To>) {
    return Narrow<To>(static_cast<double>(from));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    using Limits = std::numeric_limits<To>;
    if (std::isnan(from)) return 0;
    // The limits as From: max() rounds up to a power of two where From has too few digits.
    if (from <= static_cast<From>(Limits::min())) return Limits::min();
    if (from >= static_cast<From>(Limits::max())) return Limits::max();
    return static_cast<To>(from);
  } else {
    return static_cast<To>(from);
  }
}

std::vector<std::string> AllTypeNames() {
  std::vector<std::string> names;
  for (int i = 0; i < kNumDTypes; ++i) names.emplace_back(DTypeName(static_cast<DType>(i)));
  return names;
}

absl::Status Infer(InferContext& c) {
  const std::optional<DType> to = ParseDType(c.attrs().String("to", ""));
  MILLRACE_CHECK(to.has_value());  // one of the choices
  c.set_output(0, {*to, c.input(0).shape});
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  return VisitAll(c.inputs[0].dtype(), [&](auto from_tag) {
    return VisitAll(c.outputs[0].dtype(), [&](auto to_tag) {
      using From = typename decltype(from_tag)::type;
      using To = typename decltype(to_tag)::type;
      const std::span<const From> x = c.inputs[0].data<From>();
      const std::span<To> y = c.outputs[0].mutable_data<To>();
      for (size_t i = 0; i < y.size(); ++i) y[i] = Convert<To>(x[i]);
      return absl::OkStatus();
    });
  });
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0) || !IsFloat(f.input_type(0).dtype) || !IsFloat(f.output_type(0).dtype)) {
    return absl::OkStatus();  // what integers stand in between is constant
  }
  Attrs attrs;
  attrs.Set("to", std::string(DTypeName(f.input_type(0).dtype)));
  f.set_grad(0, Apply("Cast", {f.output_grad(0)}, std::move(attrs)));
  return absl::OkStatus();
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules = ElementwiseRules(query);
  if (IsFloat(query.inputs[0]->dtype) && IsFloat(query.outputs[0]->dtype)) {
    AddPartialRules(query, 0, kLinearReductions, rules);
  }
  return rules;
}

}  // namespace

OpDef CastOp() {
  return {.name = "Cast",
          .doc = "The input in another element type",
          .inputs = {{.name = "input"}},
          .outputs = {{.name = "output"}},
          .attrs = {{.name = "to",
                     .kind = AttrKind::kString,
                     .required = true,
                     .choices = AllTypeNames(),
                     .doc = "the element type of the result"}},
          .traits = {.in_place = {{0, 0}}},
          .fusion = FusionClass::kElementwise,
          .scalar_op = "cast",
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules};
}

}  // namespace millrace
