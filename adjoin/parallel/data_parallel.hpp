#pragma once

#include <utility>

#include "adjoin/parallel/weights.hpp"

namespace adjoin::parallel {

using DataParallelOptions = WeightsOptions;

/// The weights of a module of which each rank keeps all (Weights in stage 0): any optimizer of module.parameters() updates them by
/// its own step.
class DataParallel : public Weights {
 public:
  DataParallel(torch::nn::Module& module, const Communicator& group, DataParallelOptions options = {})
      : Weights(module, group, in_stage_0(std::move(options)), "DataParallel") {}

 private:
  static WeightsOptions in_stage_0(WeightsOptions options) {
    options.zero = 0;
    return options;
  }
};

}  // namespace adjoin::parallel
