#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/movement/forward_pass.hpp"
#include "adjoin/nn/sequence/attention.hpp"
#include "adjoin/nn/sequence/key_value_cache.hpp"
#include "adjoin/partition/grid.hpp"

namespace adjoin::models {

/// How the rows of a model lie over workers, beside its features over the tensor-parallel ones, and what of it is computed
/// again in backward.
struct RowOptions {
  /// Sequence parallelism: between the tensor-parallel layers each of their ranks has a balanced part of the rows.
  bool split = false;
  /// Context parallelism: the axis of the grid over whose ranks the rows of each sample are split; "": none.
  std::string axis = {};
  nn::AttentionMethod method = nn::AttentionMethod::ring;  ///< of context parallelism
  bool recompute_attention = false;                        ///< its core, between the two linear layers

  /// The rows that this rank of a tensor-parallel group has between the layers: all of `rows`, or its part.
  LocalRows between_layers(const LocalRows& rows, const Communicator& group) const;
};

/// Experts in place of a transformer's feed-forward layers; the fields are those of nn::MixtureOfExpertsOptions.
struct ExpertOptions {
  int64_t experts = 1;  ///< 1: feed-forward layers
  int64_t top_k = 1;
  int64_t every = 1;  ///< of so many blocks the last has experts
  bool normalises_gates = true;
  double balance_loss = 0, z_loss = 0;
  std::string axis = {};

  bool in_block(int64_t block) const { return experts > 1 && (block + 1) % every == 0; }
};

/// The recipe of a module with parameters, whose full names begin with the part's.
struct Part {
  std::string name;  ///< "block3"
  /// Makes this rank's module on the grid of its stage. The weights get their values later.
  std::function<std::shared_ptr<torch::nn::Module>(const Grid& stage, const at::TensorOptions& tensor)> make;
};

/// The modules of a segment's parts, in their order, and the grid that they were made on.
struct Modules {
  Grid stage;
  std::vector<std::shared_ptr<torch::nn::Module>> of_parts = {};

  template <class Module>
  Module& as(size_t part) const {
    return *of_parts[part]->as<Module>();
  }
};

/// The recipe of a piece of a model that needs no more than the output of the one before: an embedding, a block, a head.
///
/// Each rank makes the segments of its own stage. Two segments that name the same part share its weights.
struct Segment {
  std::string name;
  /// Segments of one kind are alike but for the names of their parts, so that what one of them needs is known of all.
  std::string kind;
  double cost = 0;  ///< multiplications and additions of one row's way forward, in products with weights
  /// Those of attention for a sample of T rows are this times T^2: scores and sums of values; 0: it does not attend.
  double attention_cost = 0;
  std::vector<Part> parts = {};
  /// A block that attends to earlier tokens finds them in its `cache`, where there is one.
  std::function<at::Tensor(const Modules& modules, const at::Tensor& x, const ForwardPass& pass,
                           nn::KeyValueCache* cache)>
      forward = {};
  int64_t experts = 0;      ///< of its layer of experts; 0: it has none
  bool recomputes = false;  ///< it keeps only its input, and is computed again in backward
  /// The shape of this rank's output for these rows; the last segment of a model need not say it.
  std::function<std::vector<int64_t>(const Grid& stage, const LocalRows& rows)> output_shape = {};
};

/// A segment of one module, of the same name: `make(stage, tensor)` gives it, and `forward(module, x, pass)` applies it.
template <class Module, class Make, class Forward>
Segment segment(const std::string& name, const Make& make, const Forward& forward) {
  return {.name = name,
          .kind = name,
          .parts = {{name, make}},
          .forward = [forward](const Modules& modules, const at::Tensor& x, const ForwardPass& pass,
                               nn::KeyValueCache*) { return forward(modules.as<Module>(0), x, pass); }};
}

}  // namespace adjoin::models
