#pragma once

#include <torch/nn/pimpl.h>

#include <string>

#include "adjoin/models/segment.hpp"
#include "adjoin/nn/attention.hpp"
#include "adjoin/nn/col_row.hpp"
#include "adjoin/nn/mixture_of_experts.hpp"
#include "adjoin/nn/norm.hpp"

namespace adjoin::models {

/// The names, the options of rows and the tensor options of the layers and norms are the block's, and so are the norms' features.
struct TransformerBlockOptions {
  std::string name = {};  ///< the full name, for the dropout masks
  nn::SelfAttentionOptions attention;
  nn::ColRowOptions feed_forward;
  nn::NormOptions norm{};
  bool norm_after_sum = false;
  ExpertOptions experts =
      {};              ///< where there are some, each is as the feed-forward layer, without its biases and its dropout
  double dropout = 0;  ///< of the outputs of both
  RowOptions rows = {};
  at::TensorOptions tensor = at::kFloat;
};

/// x + dropout(attention(norm(x))), then x + dropout(feed_forward(norm(x))), where the feed-forward layer may be a mixture of experts.
/// With norms after the sum, norm(x + dropout(attention(x))) and then norm(x + dropout(feed_forward(x))).
///
/// Shape: x [rows, hidden] on every rank -> the same; where rows are split, the rank's part of them
/// Kinds: replicated -> replicated, or split -> split
/// Cost:  two all-reduces forward, two backward; with split rows four all-gathers and reduce-scatters, and two all-gathers more
class TransformerBlockImpl : public torch::nn::Module {
 public:
  /// Throws: InvalidArgument as nn::ParallelSelfAttention
  TransformerBlockImpl(TransformerBlockOptions options, const Grid& grid, const std::string& axis);
  /// With a cache as nn::ParallelSelfAttention.
  at::Tensor forward(at::Tensor x, const ForwardPass& pass, nn::KeyValueCache* cache = nullptr);

 private:
  RowOptions rows_;
  Communicator group_;  // who share the features of a row
  bool norm_after_sum_;
  double dropout_;
  nn::DropoutPlace after_attention_, after_feed_forward_;
  nn::ReplicatedNorm norm1_{nullptr}, norm2_{nullptr};  // of the attention, and of the feed-forward
  nn::ParallelSelfAttention attention_{nullptr};
  nn::ColRow feed_forward_{nullptr};
  nn::MixtureOfExperts experts_{nullptr};  // in its place
};
TORCH_MODULE(TransformerBlock);

/// Multiplications and additions of one row's way through a block, in matrix products; those of the scores, which grow
/// with the length of the sample, are not in it.
double cost_of(const TransformerBlockOptions& options);
/// Those of the scores and of the sums of values for a sample of T rows are this times T^2; causal attention skips half.
double attention_cost_of(const TransformerBlockOptions& options);

}  // namespace adjoin::models
