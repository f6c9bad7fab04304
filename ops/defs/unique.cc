// Unique: the distinct elements, or slices along an axis, with where each first occurs, which one
// each element is, and how often each occurs. NaN is one value, larger than all others.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/reference_dispatch.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  Shape shape = c.input(0).shape;
  int64_t count = NumElements(shape);
  if (c.attrs().Find("axis") != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(const int axis,
                              NormalizeAxis(c.attrs().Int("axis", 0), shape.rank()));
    count = shape[axis];
  } else {
    shape = {count};
  }
  const TensorType numbers{DType::kI64, {count}};
  c.set_output(0, {c.input(0).dtype, shape}, /*bounded=*/true);
  c.set_output(1, numbers, /*bounded=*/true);
  c.set_output(2, numbers);
  c.set_output(3, numbers, /*bounded=*/true);
  return absl::OkStatus();
}

// -1, 0 or 1.
template <typename T>
int Compare(const T& a, const T& b) {
  if constexpr (kIsFloating<T>) {
    const double x = static_cast<double>(a), y = static_cast<double>(b);
    if (std::isnan(x) || std::isnan(y)) return int{std::isnan(x)} - int{std::isnan(y)};
    return int{x > y} - int{x < y};
  } else {
    return int{a > b} - int{a < b};
  }
}

// What is compared: items 0 to `size`, each `inner` elements in each of `outer` rows.
template <typename T>
struct Items {
  const T* data;
  AxisView view;

  int Compare(int64_t a, int64_t b) const {
    for (int64_t o = 0; o < view.outer; ++o) {
      const T* row = data + o * view.size * view.inner;
      for (int64_t i = 0; i < view.inner; ++i) {
        const int order = millrace::Compare(row[a * view.inner + i], row[b * view.inner + i]);
        if (order != 0) return order;
      }
    }
    return 0;
  }
};

struct Groups {
  std::vector<int64_t> first, of, count;  // item each begins with; group of each item; how many
};

// Items that are equal, in the order of the items or in that of first occurrence.
template <typename T>
Groups GroupItems(const Items<T>& items, bool sorted) {
  std::vector<int64_t> order(items.view.size);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return items.Compare(a, b) < 0; });
  Groups groups;
  groups.of.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || items.Compare(order[i - 1], order[i]) != 0) {
      groups.first.push_back(order[i]);
      groups.count.push_back(0);
    }
    groups.of[order[i]] = static_cast<int64_t>(groups.first.size()) - 1;
    ++groups.count.back();
  }
  if (sorted) return groups;
  std::vector<int64_t> by_place(groups.first.size());  // groups by first occurrence
  std::iota(by_place.begin(), by_place.end(), 0);
  std::sort(by_place.begin(), by_place.end(),
            [&](int64_t a, int64_t b) { return groups.first[a] < groups.first[b]; });
  std::vector<int64_t> place(by_place.size());
  Groups reordered{{}, groups.of, {}};
  for (size_t i = 0; i < by_place.size(); ++i) {
    place[by_place[i]] = static_cast<int64_t>(i);
    reordered.first.push_back(groups.first[by_place[i]]);
    reordered.count.push_back(groups.count[by_place[i]]);
  }
  for (int64_t& group : reordered.of) group = place[group];
  return reordered;
}

absl::Status Reference(const ReferenceContext& c) {
  const Tensor& x = c.inputs[0];
  Shape shape = x.shape();
  // Without an axis all elements are items.
  AxisView view{.outer = 1, .size = x.num_elements(), .inner = 1};
  int axis = 0;
  if (c.attrs.Find("axis") != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(axis, NormalizeAxis(c.attrs.Int("axis", 0), shape.rank()));
    view = ViewAround(shape, axis);
  } else {
    shape = {view.size};
  }
  return VisitAll(x.dtype(), [&](auto tag) -> absl::Status {
    using T = typename decltype(tag)::type;
    const T* data = x.data<T>().data();
    const Groups groups = GroupItems<T>({data, view}, c.attrs.Bool("sorted", true));
    const int64_t count = static_cast<int64_t>(groups.first.size());
    shape[axis] = count;
    MILLRACE_ASSIGN_OR_RETURN(Tensor y, Tensor::Allocate({x.dtype(), shape}));
    T* to = y.template mutable_data<T>().data();
    for (int64_t o = 0; o < view.outer; ++o) {
      for (int64_t item : groups.first) {
        const T* from = data + (o * view.size + item) * view.inner;
        to = std::copy(from, from + view.inner, to);
      }
    }
    const std::vector<int64_t>* const lists[] = {&groups.first, &groups.of, &groups.count};
    c.outputs[0] = std::move(y);
    for (size_t i = 1; i < c.outputs.size(); ++i) {
      const std::vector<int64_t>& list = *lists[i - 1];
      c.outputs[i] = Tensor::FromSpan<int64_t>({static_cast<int64_t>(list.size())}, list);
    }
    return absl::OkStatus();
  });
}

}  // namespace

OpDef UniqueOp() {
  return {.name = "Unique",
          .doc = "The distinct elements, or slices along an axis",
          .tier = 2,
          .inputs = {{.name = "X", .same_as = "T"}},
          .outputs = {{.name = "Y", .same_as = "T"},
                      {.name = "indices", .optional = true, .doc = "where each first occurs"},
                      {.name = "inverse_indices", .optional = true, .doc = "which each element is"},
                      {.name = "counts", .optional = true, .doc = "how often each occurs"}},
          .attrs = {{.name = "axis", .kind = AttrKind::kInt, .doc = "absent: elements"},
                    {.name = "sorted",
                     .kind = AttrKind::kBool,
                     .default_value = true,
                     .doc = "ascending; else by first occurrence"}},
          .traits = {.host_call = true},
          .infer = Infer,
          .reference = Reference};
}

}  // namespace millrace
