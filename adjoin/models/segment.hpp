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
#include "adjoin/nn/sequence/attention.hpp"

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
};

/// What goes through a model at once on this rank: the rows and samples of a micro-batch, and the bytes of a number, as tensors
/// have it and as matrix products do, which autocast makes 16-bit.
struct Load {
  std::shared_ptr<const Rows> all = {};  ///< the rows of all context-parallel ranks, of which `rows` are this one's
  int64_t rows = 0, samples = 0;
  int64_t bytes = 4, product_bytes = 4;
};

/// What a segment asks of this rank, forward and back.
struct Needs {
  int64_t input = 0;      ///< bytes of what it is given, where that waits for backward
  int64_t kept = 0;       ///< bytes of activations that wait for backward, the input's among them
  int64_t temporary = 0;  ///< bytes beside them, at most, in backward
  std::vector<PlannedCall> forward = {}, backward = {};  ///< in no order
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
  /// How samples are split over context-parallel ranks so that they have equally much to do.
  Rows (*cut)(const std::vector<int64_t>& lengths, int workers) = Rows::balanced;
  bool recomputes = false;  ///< whether segments keep only their input, and are computed again in backward

  at::Tensor operator()(at::Tensor x, const StepContext& context) const;
};

/// The context of the rows that are between the tensor-parallel layers of a group: those of `context`, or this rank's part.
inline StepContext context_between(const RowOptions& options, const Communicator& group, const StepContext& context) {
  return options.split ? context.of_part(group.size(), group.rank()) : context;
}
/// How many rows those are.
inline int64_t rows_between(const RowOptions& options, const Communicator& group, int64_t rows) {
  return options.split ? Split::balanced(rows, group.size(), 0).size(group.rank()) : rows;
}

/// Adds what a column-parallel layer of so many features in calls, and a row-parallel one of so many out.
void add_column_calls(Needs& needs, const RowOptions& options, const Communicator& group, const Load& load,
                      int64_t features);
void add_row_calls(Needs& needs, const RowOptions& options, const Communicator& group, const Load& load,
                   int64_t features);

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
