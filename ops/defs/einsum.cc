// Einsum as numpy's. The kernel multiplies operands in one at a time and sums over a label as soon
// as it can (EinsumSteps), so that a chain of products costs what its products cost; only where a
// product in between would be larger than everything else are all operands multiplied at once. Each
// step is a nest of strided loops, those with the smallest strides innermost.
//
// The gradient by an operand is the Einsum of the result's gradient with the other operands, for
// the labels that those have; over labels that only the operand has it is constant, and along a
// diagonal it is zero elsewhere.
#include "ops/einsum.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  std::vector<Shape> shapes;
  for (int i = 0; i < c.num_inputs(); ++i) shapes.push_back(c.input(i).shape);
  MILLRACE_ASSIGN_OR_RETURN(const EinsumForm form,
                            BindEinsum(c.attrs().String("equation", ""), shapes));
  Shape shape;
  for (int label : form.output) shape.push_back(form.sizes[label]);
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

// --- Kernel ------------------------------------------------------------------------------------

// Elements with one stride per label; 0 where they do not depend on it.
template <typename S>
struct Factor {
  std::vector<S> elements;
  std::vector<int64_t> strides;
};

template <typename S>
struct LoopNest {
  struct Level {
    int64_t size = 1, out = 0;
    std::vector<int64_t> in;  // strides, by factor
  };
  std::vector<Level> levels;

  // to += product of the `count` factors at `from`, over the levels from `depth` on.
  void Run(size_t depth, S* to, const S* const* factors, size_t count) const {
    const Level& level = levels[depth];
    absl::InlinedVector<const S*, 4> from(factors, factors + count);
    if (depth + 1 < levels.size()) {
      for (int64_t i = 0; i < level.size; ++i) {
        Run(depth + 1, to, from.data(), count);
        to += level.out;
        for (size_t f = 0; f < count; ++f) from[f] += level.in[f];
      }
      return;
    }
    if (count == 2) {
      const S *a = from[0], *b = from[1];
      const int64_t step_a = level.in[0], step_b = level.in[1];
      for (int64_t i = 0; i < level.size; ++i) to[i * level.out] += a[i * step_a] * b[i * step_b];
      return;
    }
    for (int64_t i = 0; i < level.size; ++i) {
      S product = 1;
      for (size_t f = 0; f < count; ++f) product *= from[f][i * level.in[f]];
      to[i * level.out] += product;
    }
  }
};

// The product of the factors, summed over all labels but `keep`, dense in that order.
template <typename S>
Factor<S> Multiply(const EinsumForm& form, std::span<const Factor<S>* const> factors,
                   std::span<const int> keep) {
  Factor<S> product;
  product.strides.assign(form.sizes.size(), 0);
  int64_t count = 1;
  for (size_t i = keep.size(); i-- > 0;) {
    product.strides[keep[i]] = count;
    count *= form.sizes[keep[i]];
  }
  product.elements.assign(static_cast<size_t>(count), S(0));
  // Nothing to add up, over however many places.
  bool is_empty = count == 0;
  for (const Factor<S>* factor : factors) is_empty |= factor->elements.empty();
  if (is_empty) return product;

  LoopNest<S> nest;
  for (size_t label = 0; label < form.sizes.size(); ++label) {
    typename LoopNest<S>::Level level{form.sizes[label], product.strides[label], {}};
    bool is_there = std::find(keep.begin(), keep.end(), static_cast<int>(label)) != keep.end();
    for (const Factor<S>* factor : factors) {
      level.in.push_back(factor->strides[label]);
      is_there |= factor->strides[label] != 0;
    }
    if (is_there) nest.levels.push_back(std::move(level));
  }
  const auto total = [](const auto& level) {
    int64_t sum = level.out;
    for (int64_t stride : level.in) sum += stride;
    return sum;
  };
  std::stable_sort(nest.levels.begin(), nest.levels.end(),
                   [&](const auto& a, const auto& b) { return total(a) > total(b); });
  if (nest.levels.empty()) nest.levels.push_back({1, 0, std::vector<int64_t>(factors.size(), 0)});
  std::vector<const S*> from;
  for (const Factor<S>* factor : factors) from.push_back(factor->elements.data());
  nest.Run(0, product.elements.data(), from.data(), from.size());
  return product;
}

template <typename T>
Factor<SumType<T>> FactorOf(const Tensor& tensor, const std::vector<int>& labels,
                            size_t num_labels) {
  Factor<SumType<T>> factor;
  for (T element : tensor.data<T>()) {
    factor.elements.push_back(static_cast<SumType<T>>(element));
  }
  factor.strides.assign(num_labels, 0);
  const Shape strides = DenseStrides(tensor.shape());
  for (int d = 0; d < tensor.shape().rank(); ++d) {
    if (tensor.shape()[d] != 1) factor.strides[labels[d]] += strides[d];
  }
  return factor;
}

double ElementsOf(const ReferenceContext& c) {
  double elements = static_cast<double>(c.outputs[0].num_elements());
  for (const Tensor& input : c.inputs) elements += static_cast<double>(input.num_elements());
  return elements;
}

template <typename T>
Factor<SumType<T>> Compute(const EinsumForm& form, const ReferenceContext& c) {
  using S = SumType<T>;
  const size_t num_labels = form.sizes.size();
  const std::vector<EinsumStep> steps = EinsumSteps(form);
  if (!StaysSmall(form, steps, ElementsOf(c))) {
    std::vector<Factor<S>> all;
    std::vector<const Factor<S>*> factors;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      all.push_back(FactorOf<T>(c.inputs[i], form.inputs[i], num_labels));
    }
    for (const Factor<S>& factor : all) factors.push_back(&factor);
    return Multiply<S>(form, factors, form.output);
  }
  Factor<S> product{{S(1)}, std::vector<int64_t>(num_labels, 0)};
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Factor<S> factor = FactorOf<T>(c.inputs[i], form.inputs[i], num_labels);
    const Factor<S>* const factors[] = {&product, &factor};
    product = Multiply<S>(form, factors, steps[i].keep);
  }
  return product;
}

absl::Status Reference(const ReferenceContext& c) {
  if (c.outputs[0].num_elements() == 0) return absl::OkStatus();
  std::vector<Shape> shapes;
  for (const Tensor& input : c.inputs) shapes.push_back(input.shape());
  MILLRACE_ASSIGN_OR_RETURN(const EinsumForm form,
                            BindEinsum(c.attrs.String("equation", ""), shapes));
  return VisitNumeric(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Factor<SumType<T>> result = Compute<T>(form, c);
    const std::span<T> to = c.outputs[0].mutable_data<T>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = Narrow<T>(result.elements[i]);
    return absl::OkStatus();
  });
}

// --- Gradient ----------------------------------------------------------------------------------

bool Contains(const std::vector<int>& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// Ones where the coordinates along all dims of `label` agree, with dims of 1 elsewhere.
Term Diagonal(const Term& like, const std::vector<int>& labels, int label, int64_t size) {
  Shape shape;
  for (int l : labels) shape.push_back(l == label ? size : 1);
  Tensor mask = Tensor::Zeros({like.dtype, shape});
  const Shape strides = DenseStrides(shape);
  int64_t step = 0;
  for (size_t d = 0; d < labels.size(); ++d) {
    if (labels[d] == label) step += strides[static_cast<int>(d)];
  }
  for (int64_t i = 0; i < size; ++i) mask.Set(i * step, 1);
  return {like.builder, like.builder->Constant("diagonal", std::move(mask)), like.dtype};
}

class EinsumGradient {
 public:
  EinsumGradient(const Forward& f, const EinsumForm& form) : f_(f), form_(form) {}

  // The gradient by operand i.
  Term By(int i) const {
    const std::vector<int>& labels = form_.inputs[i];
    const Shape& shape = f_.input_type(i).shape;
    // Each label at its first dim; other dims of a diagonal are 1 for now.
    std::vector<int> wanted;
    Shape spread, full;  // of the wanted labels, and of all labels, in x's dims
    for (int d = 0; d < shape.rank(); ++d) {
      const int label = labels[d];
      const bool first = std::find(labels.begin(), labels.begin() + d, label) == labels.begin() + d;
      const int64_t there = shape[d] == form_.sizes[label] ? SizeElsewhere(i, label) : 0;
      if (first && there > 0) wanted.push_back(label);
      spread.push_back(first && there > 0 ? there : 1);
      full.push_back(first ? shape[d] : 1);
    }
    Term grad = Reshape(Product(i, wanted), spread);
    if (spread != full) grad = ExpandTo(grad, full);
    for (int d = 0; d < shape.rank(); ++d) {
      const bool repeats =
          std::find(labels.begin() + d + 1, labels.end(), labels[d]) != labels.end();
      const bool first =
          std::find(labels.begin(), labels.begin() + d, labels[d]) == labels.begin() + d;
      if (first && repeats) grad = grad * Diagonal(grad, labels, labels[d], shape[d]);
    }
    return grad;
  }

 private:
  // Of the label in the result and the operands other than i; 0: none has it.
  int64_t SizeElsewhere(int i, int label) const {
    int64_t size = Contains(form_.output, label) ? form_.sizes[label] : 0;
    for (int j = 0; j < f_.num_inputs(); ++j) {
      for (size_t d = 0; d < form_.inputs[j].size(); ++d) {
        if (j == i || form_.inputs[j][d] != label) continue;
        size = std::max(size, f_.input_type(j).shape[static_cast<int>(d)]);
      }
    }
    return size;
  }

  Term Product(int i, const std::vector<int>& wanted) const {
    std::vector<Term> operands = {f_.output_grad(0)};
    std::string equation = Letters(form_.output);
    for (int j = 0; j < f_.num_inputs(); ++j) {
      if (j == i) continue;
      operands.push_back(f_.input(j));
      StrAppend(&equation, ",", Letters(form_.inputs[j]));
    }
    StrAppend(&equation, "->", Letters(wanted));
    Attrs attrs;
    attrs.Set("equation", equation);
    return Apply("Einsum", operands, std::move(attrs));
  }

  static std::string Letters(const std::vector<int>& labels) {
    std::string text;
    for (int label : labels) {
      text += static_cast<char>(label < 26 ? 'a' + label : 'A' + label - 26);
    }
    return text;
  }

  const Forward& f_;
  const EinsumForm& form_;
};

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  std::vector<Shape> shapes;
  for (int i = 0; i < f.num_inputs(); ++i) shapes.push_back(f.input_type(i).shape);
  MILLRACE_ASSIGN_OR_RETURN(const EinsumForm form,
                            BindEinsum(f.attrs().String("equation", ""), shapes));
  if (form.sizes.size() > 52) {
    return BadInputError(StrCat("the equation has ", form.sizes.size(),
                                " labels, and there are 52 letters for its gradient"));
  }
  const EinsumGradient gradient(f, form);
  for (int i = 0; i < f.num_inputs(); ++i) {
    if (f.wants(i)) f.set_grad(i, gradient.By(i));
  }
  return absl::OkStatus();
}

// --- Sharding, work ----------------------------------------------------------------------------

absl::StatusOr<EinsumForm> BoundForm(const NodeQuery& query) {
  std::vector<Shape> shapes;
  for (const auto& input : query.inputs) shapes.push_back(input->shape);
  return BindEinsum(query.attrs.String("equation", ""), shapes);
}

// A label may be cut unless it runs along a diagonal; what the result lacks is summed.
std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const absl::StatusOr<EinsumForm> form = BoundForm(query);
  if (!form.ok()) return rules;
  for (int label = 0; label < static_cast<int>(form->sizes.size()); ++label) {
    if (form->sizes[label] < 2) continue;
    ShardingRule rule = ReplicateAll(query, StrCat("split ", form->names[label]));
    bool diagonal = false;
    for (size_t i = 0; i < form->inputs.size(); ++i) {
      const std::vector<int>& labels = form->inputs[i];
      diagonal |= std::count(labels.begin(), labels.end(), label) > 1;
      const int d =
          static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin());
      const Shape& shape = query.inputs[i]->shape;
      if (d < shape.rank() && shape[d] == form->sizes[label]) rule.inputs[i] = ShardDim(d);
    }
    if (diagonal) continue;
    const auto at = std::find(form->output.begin(), form->output.end(), label);
    rule.outputs[0] = at != form->output.end()
                          ? ShardDim(static_cast<int>(at - form->output.begin()))
                          : Partial(Reduction::kSum);
    rules.push_back(std::move(rule));
  }
  for (size_t i = 0; i < query.inputs.size(); ++i) {
    AddPartialRules(query, static_cast<int>(i), kLinearReductions, rules);
  }
  return rules;
}

Work EinsumWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  const absl::StatusOr<EinsumForm> form = BoundForm(query);
  if (!form.ok()) return work;
  const std::vector<EinsumStep> steps = EinsumSteps(*form);
  // One operand alone is summed, not multiplied.
  work.flops = steps.size() == 1 ? steps[0].points : 0;
  for (size_t i = 1; i < steps.size(); ++i) work.flops += 2 * steps[i].points;
  return work;
}

}  // namespace

OpDef EinsumOp() {
  return {
      .name = "Einsum",
      .doc = "Products of operands along labelled dims, summed over labels the result lacks",
      .inputs = {{.name = "Inputs", .dtypes = NumericTypes(), .variadic = true, .same_as = "T"}},
      .outputs = {{.name = "Output", .same_as = "T"}},
      .attrs = {{.name = "equation",
                 .kind = AttrKind::kString,
                 .required = true,
                 .doc = "\"ij,jk->ik\", \"...ii->...i\"; without ->, labels that occur once"}},
      .fusion = FusionClass::kContraction,
      .infer = Infer,
      .reference = Reference,
      .gradient = Gradient,
      .sharding = Rules,
      .work = EinsumWork};
}

}  // namespace millrace
