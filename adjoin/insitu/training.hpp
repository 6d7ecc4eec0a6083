#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/insitu/network.hpp"
#include "adjoin/parallel/learning_rate.hpp"
#include "adjoin/parallel/optimizer.hpp"

namespace adjoin::insitu {

/// How the weights of a network are updated, and at which rate in which step. The description is JSON, all of which may be left out:
///
///     {"rule": "adamw", "rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "decay": 0, "clip": 0,
///      "warmup": 0, "steps": 0, "schedule": "constant"}
///
/// or with "rule": "sgd", "momentum" and "nesterov". The rate grows linearly during `warmup` steps; then it is constant, or falls to 0
/// at step `steps`, by a line ("linear") or half a cosine ("cosine").
class Training {
 public:
  /// Called by all ranks with the same description. Throws: InvalidArgument on all ranks alike, with the key
  Training(const Network& network, const std::string& description);

  /// Sums gradients over ranks, clips and updates; gradients are then zero. `rate` is used instead of the description's.
  /// Called by all ranks.
  parallel::Update step(std::optional<double> rate);
  std::vector<nn::Parameter> state() const { return optimizer_->state(); }

 private:
  parallel::LearningRate rate_;
  std::optional<parallel::Optimizer> optimizer_;
};

/// Writes a safetensors file with the weights, also running statistics, and what a training remembers, if there is one. PyTorch's names
/// are LAYER.weight and so on. Called by all ranks. Throws: IoError on all ranks of the grid alike
void save(const std::filesystem::path& path, const Network& network, const Training* training);
/// Reads such a file, written by any number of ranks: with `training` all of it, without it the weights alone. Called by all ranks.
/// Throws: InvalidArgument on all ranks alike for another network's file, or one without what the training needs
void load(const std::filesystem::path& path, const Network& network, const Training* training);

}  // namespace adjoin::insitu
