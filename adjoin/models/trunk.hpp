#pragma once

#include <torch/nn/pimpl.h>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/models/segment.hpp"
#include "adjoin/models/transformer_options.hpp"
#include "adjoin/nn/embedding.hpp"
#include "adjoin/nn/linear.hpp"
#include "adjoin/nn/mixture_of_experts.hpp"
#include "adjoin/nn/norm.hpp"
#include "adjoin/nn/positions.hpp"
#include "adjoin/nn/sequence/self_attention.hpp"

namespace adjoin::models {

/// The layers and norms take their names, row options, tensor options and number of features from the block.
struct TransformerBlockOptions {
  std::string name = {};  ///< the full name, for the dropout masks
  nn::SelfAttentionOptions attention;
  nn::ColRowOptions feed_forward;
  nn::NormOptions norm{};
  TransformerOptions::NormPlace norm_place = TransformerOptions::NormPlace::before;
  ExpertOptions experts =
      {};              ///< with experts: each is like the feed-forward layer, without its biases and its dropout
  double dropout = 0;  ///< of the outputs of both layers
  TokenRowOptions rows = {};
  at::TensorOptions tensor = at::kFloat;
};

/// x + dropout(attention(norm(x))), then x + dropout(feed_forward(norm(x))); the feed-forward layer may be a mixture of
/// experts. With the norms after the sums: norm(x + dropout(attention(x))), then norm(x + dropout(feed_forward(x))).
///
/// Shape: x [rows, hidden] on every rank -> the same; where rows are split, the rank's part of them
/// Kinds: replicated -> replicated, or split -> split
/// Cost:  two all-reduces forward, two backward; with split rows four all-gathers, four reduce-scatters, and two more
///        all-gathers
class TransformerBlockImpl : public torch::nn::Module {
 public:
  /// Throws: InvalidArgument as nn::ParallelSelfAttention
  TransformerBlockImpl(TransformerBlockOptions options, const Grid& grid, const std::string& axis);
  /// A cache works as in nn::ParallelSelfAttention.
  at::Tensor forward(at::Tensor x, const ForwardPass& pass, nn::KeyValueCache* cache = nullptr);

 private:
  TokenRowOptions rows_;
  Communicator group_;  // the ranks that share the features of a row
  bool norms_after_sum_;
  double dropout_;
  nn::DropoutPlace after_attention_, after_feed_forward_;
  nn::ReplicatedNorm norm1_{nullptr}, norm2_{nullptr};  // of the attention, and of the feed-forward layer
  nn::ParallelSelfAttention attention_{nullptr};
  nn::ColRow feed_forward_{nullptr};
  nn::MixtureOfExperts experts_{nullptr};  // instead of the feed-forward layer
};
TORCH_MODULE(TransformerBlock);

/// Multiplications and additions of one row's forward through a block, in matrix products, without those of the scores, which
/// grow with the length of the sample.
double cost_of(const TransformerBlockOptions& options);
/// Those of the scores and the sums of values, for a sample of T rows, are this times T^2; causal attention skips half of them.
double attention_cost_of(const TransformerBlockOptions& options);

/// The segments "embedding", "block0" and so on; all tensor parallel over the axis "tp". Errors use the name `model`.
///
/// Shape:  ids [rows] int64, of the samples and tokens that the pass says -> [rows, hidden]; where rows are split, the rank's
///         part
/// Kinds:  replicated -> replicated, or split
/// Throws: InvalidArgument for less than 1 word or layer, and for learned positions without a context. Making the parts throws
///         it for heads that do not divide the hidden size where no head size is given, and for more ranks along "tp" than key
///         heads; running them throws it for samples longer than the context
std::vector<Segment> trunk(const TransformerOptions& options, const std::string& model);

/// A part that holds a vector for each word.
ModuleRecipe words_part(const TransformerOptions& options, const std::string& name = "embedding");
/// The norm after the blocks, "norm".
ModuleRecipe norm_part(const TransformerOptions& options, const std::string& name = "norm");

}  // namespace adjoin::models
