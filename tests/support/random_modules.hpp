#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/parallel/distribute.hpp"
#include "adjoin/partition/grid.hpp"
#include "tests/support/layouts.hpp"

namespace adjoin::testing {

/// A module of torch::nn as a user may write it, drawn at random: layers used once or twice, branches, operations in place, views,
/// frozen weights, a table by which words are looked up and scored. The same for the same seed.
class RandomModule : public torch::nn::Module {
 public:
  static constexpr int64_t kSamples = 3, kTokens = 5, kFeatures = 12, kWords = 11;

  explicit RandomModule(uint64_t seed);

  /// The loss. ids: [samples, tokens], int64; x: [samples, tokens, features].
  at::Tensor forward(const at::Tensor& ids, const at::Tensor& x);

  /// Whether LibTorch has a second derivative of all that it does.
  bool is_twice_differentiable() const { return is_twice_differentiable_; }
  /// What it does, a line for each operation.
  const std::string& to_string() const { return text_; }

 private:
  friend class ModuleMaker;
  using Step = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& other, const at::Tensor& ids)>;
  std::vector<Step> steps_;
  std::vector<std::pair<size_t, size_t>> reads_;  // the values that each step gets
  std::function<at::Tensor(const at::Tensor& x, const at::Tensor& ids)> loss_;
  bool is_twice_differentiable_ = true;
  std::string text_;
};

/// Random cuts of its weights and inputs over the axes of a grid: uneven, in units and parts, over both axes, none.
parallel::Cuts random_cuts(uint64_t seed, const RandomModule& module, const GridShape& grid);

}  // namespace adjoin::testing
