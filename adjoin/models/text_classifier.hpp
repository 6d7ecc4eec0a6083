#pragma once

#include <vector>

#include "adjoin/models/trunk.hpp"

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
  ExpertOptions experts = {};
};

/// The trunk, and as "head" the classifier d -> d -> GELU -> dropout -> classes, tensor parallel over the axis "tp" of the grid.
///
/// Shape:  ids [rows] int64, of the samples and tokens that the pass says -> scores [samples, classes], on every rank; with
///         context parallelism those of a balanced part of the samples
/// Kinds:  replicated -> replicated
/// Cost:   forward one all-gather (the embedding) and 2 layers + 1 all-reduces; backward 2 layers + 1 all-reduces
/// Throws: InvalidArgument for sizes below 1, a hidden size that the heads do not divide; where it is made, for more ranks
///         than heads
std::vector<Segment> text_classifier(const TextClassifierOptions& options);

}  // namespace adjoin::models
