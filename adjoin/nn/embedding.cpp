#include "adjoin/nn/embedding.hpp"

#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/forward_mode.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/movement/marks.hpp"
#include "adjoin/movement/move.hpp"
#include "adjoin/movement/postponed.hpp"
#include "adjoin/nn/id_range.hpp"
#include "adjoin/nn/linear.hpp"

namespace adjoin::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

/// at::embedding; the computation of its gradient can wait.
struct Lookup : torch::autograd::Function<Lookup> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& weight, const at::Tensor& ids) {
    refuse_tangent("embedding", weight);
    ctx->save_for_backward({weight, ids});
    return at::embedding(weight, ids);
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const tensor_list saved = ctx->get_saved_variables();
    return {parameter_gradient(saved[0],
                               [of_y = gradients[0], words = saved[0].size(0), ids = saved[1]] {
                                 return at::embedding_dense_backward(of_y, ids, words, /*padding_idx=*/-1,
                                                                     /*scale_grad_by_freq=*/false);
                               }),
            at::Tensor()};
  }
};

/// The vectors of ids, from the owner of the weight where it serves look-ups.
at::Tensor look_up(const at::Tensor& weight, const at::Tensor& ids) {
  const auto order = FixedOrder::current();
  const at::Tensor vectors = looked_up(weight, ids);
  if (order) return vectors.defined() ? vectors + 0 : fixed::look_up(order, weight, ids);
  return vectors.defined() ? vectors : Lookup::apply(weight, ids);
}

}  // namespace

at::Tensor hidden_parallel_embedding(const at::Tensor& ids, const at::Tensor& weight, const Communicator& group,
                                     const Split& features, const std::optional<Split>& rows) {
  const at::Tensor mine = look_up(weight, ids);
  if (!rows) return gather_from(mine, group, features.along(mine.dim() - 1));
  return all_to_all(mine, group, features.along(1), *rows);
}

at::Tensor vocabulary_parallel_embedding(const at::Tensor& ids, const at::Tensor& weight, const Communicator& group,
                                         const Split& words, const std::optional<Split>& rows) {
  if (group.size() == 1) return look_up(weight, ids);
  require(words.in_order(), "vocabulary_parallel_embedding: expected words cut in order, one range for each rank");
  if (ids.numel() > 0) {  // where one rank has all words LibTorch checks the ids
    const auto [least, most] = range_of(ids);
    require(least >= 0 && most < words.size(), [&] {
      return "vocabulary_parallel_embedding: expected ids from 0 to " + std::to_string(words.size() - 1) + ", got " +
             std::to_string(least < 0 ? least : most);
    });
  }
  const int64_t first = words.offset(group.rank());
  const Range range{first, first + words.size(group.rank())};
  const at::Tensor elsewhere = (ids < range.begin).logical_or_(ids >= range.end);
  // A rank without words looks up nothing; its zeros come from the empty weight, so that they are in the graph.
  const at::Tensor vectors =
      range.size() > 0 ? look_up(weight, (ids - range.begin).masked_fill_(elsewhere, 0)) : weight.sum(0).expand([&] {
        std::vector<int64_t> shape = ids.sizes().vec();
        shape.push_back(weight.size(1));
        return shape;
      }());
  const at::Tensor mine = vectors.masked_fill(elsewhere.unsqueeze(-1), 0);
  return rows ? reduce_scatter(mine, group, *rows) : reduce_from(mine, group);
}

ParallelEmbeddingImpl::ParallelEmbeddingImpl(ParallelEmbeddingOptions options, const Grid& grid,
                                             const std::string& axis)
    : options_(std::move(options)),
      group_(grid.axis(axis)),
      split_(options_.cut == ParallelEmbeddingOptions::Cut::hidden
                 ? fixed::cut_features(options_.features, group_.size(), 1)
                 : fixed::cut_features(options_.words, group_.size(), 0)),
      cut_words_{.in = fixed::CutFeatures::In::backward, .group = group_} {
  require(options_.words >= 1 && options_.features >= 1, [&] {
    return "ParallelEmbedding: expected at least 1 word and 1 feature, got " + std::to_string(options_.words) +
           " and " + std::to_string(options_.features);
  });
  weight_ = register_piece("weight",
                           {layout_cut_along(grid, axis, {options_.words, options_.features}, split_), grid,
                            Initial::normal(options_.deviation)},
                           options_.tensor);
}

at::Tensor ParallelEmbeddingImpl::forward(const at::Tensor& ids) {
  std::optional<Split> rows;
  if (options_.split_rows) rows = rows_of_ranks(ids.size(0), group_.size());
  return options_.cut == ParallelEmbeddingOptions::Cut::hidden
             ? hidden_parallel_embedding(ids, weight_, group_, split_, rows)
             : vocabulary_parallel_embedding(ids, weight_, group_, split_, rows);
}

at::Tensor ParallelEmbeddingImpl::scores(const at::Tensor& x, const LocalTokenRows& rows) {
  require(options_.cut == ParallelEmbeddingOptions::Cut::vocabulary,
          "ParallelEmbedding: only an embedding that is cut by words can score words, but this one is cut by features");
  std::optional<Split> split;
  if (options_.split_rows) split = rows_of_ranks(rows.size(), group_.size());
  if (const auto order = FixedOrder::current()) {
    const auto into = [this](int parts) { return fixed::cut_features(options_.words, parts, 0); };
    cut_words_.divide(*order, into, "words");
    return fixed::linear(order, as_in_product(x), weight_, {}, cut_words_, split);
  }
  return column_parallel_linear(x, weight_, {}, group_, split);
}

}  // namespace adjoin::nn
