#include "adjoin/train/optimizer.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "adjoin/parallel/muon.hpp"

namespace adjoin::train {

parallel::Rule rule_of(const Configuration& configuration) {
  switch (configuration.optimizer) {
    case OptimizerRule::sgd:
      return parallel::sgd({.momentum = configuration.momentum});
    case OptimizerRule::muon: {
      const bool in_bf16 = configuration.precision == Precision::bf16;
      return parallel::muon({.type = in_bf16 ? std::optional(at::kBFloat16) : std::nullopt,
                             .in_order = configuration.same_bits != "off"});
    }
    default:
      return parallel::adamw();
  }
}

std::function<bool(const nn::Parameter&)> sums_in_backward(const Configuration& configuration,
                                                           std::span<const models::Segment> segments) {
  if (configuration.zero == 3) return [](const nn::Parameter&) { return false; };
  return [shared = models::shared_parts(segments)](const nn::Parameter& parameter) {
    return std::ranges::none_of(shared, [&](const auto& part) { return parameter.name.starts_with(part + "."); });
  };
}

std::function<bool(const nn::Parameter&)> keeps_shard_of_gradient(const Configuration& configuration,
                                                                  std::span<const models::Segment> segments) {
  return [is_summed = sums_in_backward(configuration, segments), zero = configuration.zero](const nn::Parameter& p) {
    return zero == 2 && is_summed(p) && parallel::BucketSum::fits_each_time(p);
  };
}

int zero_of_updates(const Configuration& configuration) {
  return configuration.zero == 3 ? 1 : static_cast<int>(configuration.zero);
}

parallel::Optimizer make_optimizer(const Configuration& configuration, std::span<const models::Segment> segments,
                                   std::vector<nn::Parameter> parameters, const Communicator& workers,
                                   std::optional<HeldLanes> lanes) {
  return {std::move(parameters),
          rule_of(configuration),
          {.weight_decay = configuration.weight_decay,
           .clip = configuration.clip,
           .zero = zero_of_updates(configuration),
           .sums_in_backward = sums_in_backward(configuration, segments),
           // A program, and products in pieces, read memory past LibTorch's operations.
           .weights_arrive_later = !configuration.has_program() && !lanes,
           .lanes = std::move(lanes),
           .workers = workers}};
}

}  // namespace adjoin::train
