#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/movement/planned_call.hpp"
#include "adjoin/movement/step_context.hpp"

namespace adjoin::models {

/// What goes through a model at once on this rank: the rows and samples of a micro-batch, and the bytes of a number, as tensors
/// have it and as matrix products do, which autocast makes 16-bit.
struct Load {
  int64_t rows = 0, samples = 0;
  int64_t bytes = 4, product_bytes = 4;
};

/// What a segment asks of this rank, forward and back.
struct Needs {
  int64_t kept = 0;                ///< bytes of activations that wait for backward
  int64_t temporary = 0;           ///< bytes beside them, at most, in backward
  std::vector<PlannedCall> calls;  ///< in no order
};

/// A part of a model that needs no more than the output of the one before: an embedding, a block, a head.
struct Segment {
  std::string name;
  double cost = 0;  ///< multiplications and additions of one row's way forward, in matrix products
  std::shared_ptr<torch::nn::Module> module;  ///< its parameters
  std::function<at::Tensor(const at::Tensor&, const StepContext&)> forward;
  std::function<Needs(const Load& load)> needs = {};  ///< by formula; docs/models.md derives it
};

/// A model: its parts in their order, and the module that knows all parameters by their full names.
struct Model {
  std::shared_ptr<torch::nn::Module> module;
  std::vector<Segment> segments;

  at::Tensor operator()(at::Tensor x, const StepContext& context) const {
    for (const Segment& segment : segments) x = segment.forward(x, context);
    return x;
  }
};

inline void append(std::vector<PlannedCall>& calls, const std::vector<PlannedCall>& more) {
  calls.insert(calls.end(), more.begin(), more.end());
}

/// What a holder holds, nothing where it is empty.
template <class Holder>
std::shared_ptr<torch::nn::Module> module_of(const Holder& holder) {
  return holder.is_empty() ? nullptr : holder.ptr();
}

/// A module of modules that another one owns.
class Parts : public torch::nn::Module {
 public:
  using List = std::vector<std::pair<std::string, std::shared_ptr<torch::nn::Module>>>;
  explicit Parts(const List& parts) {
    for (const auto& [name, part] : parts)
      if (part) register_module(name, part);
  }
};

}  // namespace adjoin::models
