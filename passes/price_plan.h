// Prices a plan: the cost of each instruction on each kind of device where it runs, as data that
// the simulator plays.
#ifndef MILLRACE_PASSES_PRICE_PLAN_H_
#define MILLRACE_PASSES_PRICE_PLAN_H_

#include <array>
#include <cstdint>

#include "graph/cost_table.h"
#include "graph/machine.h"
#include "graph/plan.h"
#include "graph/status.h"
#include "graph/task_cost.h"

namespace millrace {

struct PriceOptions {
  const CostTable* costs = nullptr;  // measurements; null: rooflines
  // The machine that `costs` describe, when the one to price for is a variation of it, with the
  // same devices at the same places of the list; null: the very same.
  const MachineSpec* measured_machine = nullptr;
};

struct PlanPrices {
  PlanCosts costs;
  std::array<int64_t, 3> kernels_by_source{};  // Launches and HostCalls in the plan, by CostSource
};

// `plan` passed the checker and its graph passed inference. UsageError when the machine lacks a
// device that the plan names, or a rate that it needs (a file's), or when a body calls itself.
absl::StatusOr<PlanPrices> PricePlan(const PlanBundle& plan, const MachineSpec& machine,
                                     const PriceOptions& options = {});

}  // namespace millrace

#endif  // MILLRACE_PASSES_PRICE_PLAN_H_
