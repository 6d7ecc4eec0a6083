#include "adjoin/plan/optimizer_needs.hpp"

#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "adjoin/movement/peak_memory.hpp"
#include "adjoin/parallel/bucket_sum.hpp"
#include "adjoin/partition/layout.hpp"
#include "adjoin/task/precision.hpp"
#include "adjoin/train/optimizer.hpp"

namespace adjoin::plan {

using namespace train;

namespace {

/// One block of zeros for all parameters of a rank and their gradients. Its pages share physical memory while nobody writes to
/// them.
at::Tensor shared_zeros(int64_t numbers, at::ScalarType type) {
  void* memory = std::calloc(static_cast<size_t>(std::max<int64_t>(1, numbers)), c10::elementSize(type));
  if (memory == nullptr) throw std::bad_alloc();
  return at::from_blob(memory, {numbers}, std::free, at::TensorOptions(type));
}

/// A part of these zeros that counts as a tensor with memory of its own.
at::Tensor as_allocated(const at::Tensor& zeros, at::IntArrayRef shape) {
  const auto report = [](int64_t bytes) {
    c10::reportMemoryUsageToProfiler(nullptr, bytes, 0, 0, at::Device(at::kCPU));
  };
  const int64_t bytes = c10::multiply_integers(shape) * static_cast<int64_t>(zeros.element_size());
  report(bytes);
  return at::from_blob(
      zeros.mutable_data_ptr(), shape, [zeros, report, bytes](void*) { report(-bytes); }, zeros.options());
}

/// Adds zeros to the lanes of a parameter, as backwards of a step's micro-batches add gradients.
void add_zeros(const PlannedRun& run, int pp, const nn::Parameter& parameter, std::span<const OrderedBatch> batches,
               LaneGradients& gradients) {
  for (const WeightUse use : uses_at(run.stages, pp, parameter.name))
    for (const OrderedBatch& batch : batches) {
      FixedOrder order = *batch.order;
      if (is_of_experts(run, parameter)) order.source = 0;
      gradients.add(order, parameter.tensor, use, order.tokens, [](const at::Tensor&, std::span<const Range>) {});
    }
}

/// The rule of a configuration, which changes nothing and counts what it would change.
parallel::Rule rule_that_counts(const Configuration& c, const std::vector<nn::Parameter>& parameters,
                                OptimizerNeeds& counts) {
  parallel::Rule rule = rule_of(c);
  rule.update = [&](const parallel::FlatPiece& piece, const parallel::UpdateStep&) {
    counts.updated += piece.value.numel();
  };
  // The rule refuses a model without matrices, which these parameters of one rank's stages may be.
  if (std::ranges::all_of(parameters, [](const nn::Parameter& p) { return p.matrices.empty(); }))
    rule.of_matrices.reset();
  if (auto& of_matrices = rule.of_matrices) {
    of_matrices->update = rule.update;
    of_matrices->prepare = [](const parallel::FlatPiece&) {};
    of_matrices->solve = [&counts, cost = of_matrices->cost](const at::Tensor& matrix, const at::Tensor&) {
      counts.solved += cost(matrix.size(0), matrix.size(1));
    };
  }
  return rule;
}

}  // namespace

std::set<WeightUse> uses_at(const Stages& stages, int pp, const std::string& parameter) {
  std::set<WeightUse> uses;
  for (const int stage : stages.stages_at(pp))
    for (size_t i = stages.first_of(stage); i < stages.ends[static_cast<size_t>(stage)]; ++i)
      for (const models::ModuleRecipe& part : stages.segments[i].parts)
        if (part.has(parameter)) uses.insert(i == 0 ? WeightUse::look_up : WeightUse::product);
  return uses;
}

bool is_of_experts(const PlannedRun& run, const nn::Parameter& parameter) {
  return run.configuration.ep > 1 && std::ranges::count(parameter.layout.axes(Kind::copied), "ep") == 0;
}

OptimizerNeeds needs_of_optimizer(const PlannedRun& run, const SilentRank& rank, std::vector<nn::Parameter> parameters,
                                  const std::vector<nn::Parameter>& whole, const MicroBatches::OfRank& of_rank) {
  const Configuration& c = run.configuration;
  const int pp = rank.grid.coordinate("pp");
  const PeakMemory memory;
  const auto keeps_shard = keeps_shard_of_gradient(c, run.stages.segments);
  int64_t largest = 0;
  for (const nn::Parameter& parameter : whole) largest = std::max(largest, parameter.tensor.numel());
  const at::Tensor zeros = shared_zeros(largest, weight_type(c.precision));
  std::optional<HeldLanes> lanes;
  if (of_rank.lanes) lanes = of_rank.lanes->held();
  if (lanes)
    lanes->gradients = std::make_shared<LaneGradients>(
        [zeros](const at::Tensor& parameter) { return as_allocated(zeros, parameter.sizes()); });
  std::vector<nn::Parameter> in_lanes, used_twice;
  for (size_t i = 0; i < parameters.size(); ++i) {
    nn::Parameter& parameter = parameters[i];
    if (parameter.is_buffer || !parameter.tensor.requires_grad()) continue;
    const auto shape = parameter.tensor.sizes().vec();
    const auto stand_in = [&](const at::Tensor& tensor) {
      return zeros.narrow(0, 0, tensor.numel()).view(tensor.sizes()).detach().requires_grad_(true);
    };
    parameter.tensor = stand_in(parameter.tensor);
    const bool is_shard = nn::ranks_of_copies(parameter) != nn::ranks_of_copies(whole[i]);
    if (lanes && !is_shard && !run.is_table(parameter.name))
      in_lanes.push_back(parameter);
    else if (!keeps_shard(parameter))
      parameter.tensor.mutable_grad() = as_allocated(zeros, shape);
    if (lanes && is_shard && uses_at(run.stages, pp, parameter.name).size() == 2) {
      used_twice.push_back(whole[i]);
      used_twice.back().tensor = stand_in(whole[i].tensor);
    }
  }
  OptimizerNeeds found;
  parallel::Rule rule = rule_that_counts(c, parameters, found);
  parallel::Optimizer optimizer(std::move(parameters), std::move(rule),
                                {.compares_copies = false,
                                 .zero = zero_of_updates(c),
                                 .sums_in_backward = sums_in_backward(c, run.stages.segments),
                                 .lanes = lanes,
                                 .workers = rank.grid.world()});
  for (const nn::Parameter& parameter : in_lanes) add_zeros(run, pp, parameter, of_rank.batches, *lanes->gradients);
  rank.calls->calls.clear();
  for (const nn::Parameter& parameter : used_twice) {  // which WeightShards sums after the last backward
    using parallel::BucketSum;
    BucketSum sum({parameter}, parallel::Bucket({parameter}, {0}), BucketSum::When::asked, lanes);
    add_zeros(run, pp, parameter, of_rank.batches, *lanes->gradients);
    sum.take();
  }
  optimizer.step(0);
  found.moments = optimizer.moment_bytes();
  found.highest = memory.peak_bytes();
  found.calls = std::exchange(rank.calls->calls, {});
  return found;
}

}  // namespace adjoin::plan
