#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "adjoin/models/transformer_options.hpp"
#include "adjoin/movement/forward_pass.hpp"
#include "adjoin/nn/sequence/attention.hpp"
#include "adjoin/nn/sequence/key_value_cache.hpp"
#include "adjoin/parallel/bundle.hpp"
#include "adjoin/parallel/weight_shards.hpp"
#include "adjoin/partition/grid.hpp"

namespace adjoin::models {

/// The recipe of a module with parameters, whose full names begin with the part's name.
struct ModuleRecipe {
  std::string name;  ///< "block3"
  /// Makes this rank's module on the grid of its stage. The weights get their values later.
  std::function<std::shared_ptr<torch::nn::Module>(const Grid& stage, const at::TensorOptions& tensor)> make;
  /// Whether its weights are large tables in which rows are looked up, and which nothing else reads: where only their owners keep
  /// them, the rows that are read move.
  bool is_table = false;
  /// What the full names of its parameters begin with in the place of its own name, where several parts share that; the rest of
  /// these names is then in `weights`.
  std::string weights_of = {};
  std::set<std::string> weights = {};

  const std::string& beginning() const { return weights_of.empty() ? name : weights_of; }
  /// Whether a parameter with this full name is one of its own.
  bool has(const std::string& parameter) const {
    const std::string& first = beginning();
    return parameter.starts_with(first + ".") &&
           (weights_of.empty() || weights.contains(parameter.substr(first.size() + 1)));
  }
};

/// Of which weights each of the ranks that hold copies keeps its shard only; where all ranks keep all, whether rows of tables'
/// gradients move.
enum class Sharding : uint8_t { none, rows_of_gradients, tables, all };
/// How ranks keep a part's weights; none: as the part makes them.
inline std::optional<parallel::Kept> kept_as(const ModuleRecipe& part, Sharding sharding) {
  using parallel::Kept;
  if (sharding == Sharding::all && !part.is_table) return Kept::shards;
  if (sharding == Sharding::none || !part.is_table) return std::nullopt;
  return sharding == Sharding::rows_of_gradients ? Kept::tables : Kept::shards_of_tables;
}

/// The modules of a segment's parts, in order, and the grid on which they were made.
struct Modules {
  Grid stage;
  std::vector<std::shared_ptr<torch::nn::Module>> of_parts = {};

  template <class Module>
  Module& as(size_t part) const {
    return *of_parts[part]->as<Module>();
  }
};

/// The recipe of a piece of a model (an embedding, a block, a head) whose only input is the output of the segment before.
///
/// Each rank makes the segments of its own stage. Two segments that name the same part share its weights.
struct Segment {
  std::string name;
  /// Segments of one kind differ only in the names of their parts, so what one of them needs is known for all.
  std::string kind;
  double cost = 0;  ///< multiplications and additions of one row's forward, in products with weights
  /// The same for attention to a sample of T rows, scores and sums of values, is this times T^2; 0: it does not attend.
  double attention_cost = 0;
  std::vector<ModuleRecipe> parts = {};
  /// A block that attends to earlier tokens finds them in `cache`, if there is one.
  std::function<at::Tensor(const Modules& modules, const at::Tensor& x, const ForwardPass& pass,
                           nn::KeyValueCache* cache)>
      forward = {};
  /// In the place of `forward`, for a segment that takes or gives several tensors, or reads the micro-batch's `input` too, which
  /// every stage has. What it gives says its shape itself.
  std::function<parallel::Bundle(const Modules& modules, const parallel::Bundle& x, const at::Tensor& input,
                                 const ForwardPass& pass)>
      with_input = {};
  /// For modules that keep shards of weights themselves: frees the memory of those that are whole for a while. Called after each backward,
  /// and after a forward pass that its own backward does not follow.
  std::function<void(const Modules& modules)> release_whole = {};
  int64_t experts = 0;      ///< number of experts in its layer of experts; 0: it has none
  bool recomputes = false;  ///< keeps only its input for backward, which computes the segment again
  /// The shape of this rank's output for these rows; not needed for the last segment of a model.
  std::function<std::vector<int64_t>(const Grid& stage, const LocalTokenRows& rows)> output_shape = {};
};

/// The names of the parts that more than one of these segments has.
std::set<std::string> shared_parts(std::span<const Segment> segments);

/// A segment of one module with the same name: `make(stage, tensor)` makes it, and `forward(module, x, pass)` applies it.
template <class Module, class Make, class Forward>
Segment segment(const std::string& name, const Make& make, const Forward& forward) {
  return {.name = name,
          .kind = name,
          .parts = {{name, make}},
          .forward = [forward](const Modules& modules, const at::Tensor& x, const ForwardPass& pass,
                               nn::KeyValueCache*) { return forward(modules.as<Module>(0), x, pass); }};
}

}  // namespace adjoin::models
