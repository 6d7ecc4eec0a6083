#pragma once

#include <torch/nn/pimpl.h>

#include <string>
#include <vector>

#include "adjoin/models/segment.hpp"
#include "adjoin/models/transformer_block.hpp"
#include "adjoin/nn/embedding.hpp"

namespace adjoin::models {

/// A transformer that classifies texts. The defaults are the simplified BERT of the DLO-JZ course (IDRIS): no biases,
/// no positions, no final norm, scores scaled by 1/sqrt(hidden), the classifier on token 0. Each option beyond them is
/// off.
struct TextClassifierOptions {
  int64_t words = 0, layers = 0, hidden = 0, heads = 0;
  int64_t classes = 2;
  double dropout = 0.1;  ///< of attention, feed-forward and classifier outputs
  double attention_dropout = 0;
  int64_t positions = 0;       ///< learned positions for so many tokens; 0: none
  bool scale_by_head = false;  ///< scores by 1/sqrt(hidden / heads)
  bool final_norm = false;
  bool mean_pooling = false;  ///< the mean over a sample's tokens, instead of token 0
  nn::ParallelEmbeddingOptions::Cut embedding_cut = nn::ParallelEmbeddingOptions::Cut::hidden;
  double embedding_deviation = 0.02;  ///< of initial embeddings; linear layers begin as in nn/linear.hpp
  RowOptions rows = {};
  at::TensorOptions tensor = at::kFloat;
};

/// Embedding, blocks, and the classifier d -> d -> GELU -> dropout -> classes, all tensor parallel over one axis of a
/// grid.
///
/// Shape: ids [rows] int64, of the samples and tokens that the context says -> scores [samples, classes], on every rank; with
///        context parallelism those of a balanced part of the samples
/// Kinds: replicated -> replicated
/// Cost:  forward one all-gather (the embedding) and 2 layers + 1 all-reduces; backward 2 layers + 1 all-reduces
class TextClassifierImpl : public torch::nn::Module {
 public:
  /// Throws: InvalidArgument for sizes below 1, a hidden size that the heads do not divide, more ranks than heads.
  TextClassifierImpl(TextClassifierOptions options, const Grid& grid, const std::string& axis);
  at::Tensor forward(const at::Tensor& ids, const StepContext& context);

  /// "embedding", "block0" and so on, "head".
  std::vector<Segment> segments() const;

 private:
  TextClassifierOptions options_;
  Communicator of_rows_;  // who has the other rows of the samples
  nn::ParallelEmbedding embedding_{nullptr}, positions_{nullptr};
  std::vector<TransformerBlock> blocks_;
  nn::ReplicatedLayerNorm norm_{nullptr};
  nn::ColRow classifier_{nullptr};
};
TORCH_MODULE(TextClassifier);

/// The number of parameters that a rank of a tensor-parallel group of `ranks` holds where everything divides evenly:
/// (words h + 12 layers h^2 + h^2 + classes h) / ranks + 4 layers h, plus what the options add.
/// Where something is uneven, build the model on the meta device and count.
int64_t parameters_per_rank(const TextClassifierOptions& options, int ranks);

}  // namespace adjoin::models
