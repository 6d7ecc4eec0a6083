#pragma once

#include <string>
#include <vector>

#include "adjoin/models/segment.hpp"
#include "adjoin/models/transformer_block.hpp"
#include "adjoin/nn/embedding.hpp"

namespace adjoin::models {

/// What transformers have in common: vectors of words, and of positions where these are learned, and blocks.
struct TrunkOptions {
  std::string model;  ///< the name in errors
  int64_t words = 0, layers = 0;
  int64_t positions = 0;  ///< learned positions for so many tokens; 0: none
  int64_t longest = 0;    ///< the most tokens of a sample; 0: any number
  nn::ParallelEmbeddingOptions::Cut embedding_cut = nn::ParallelEmbeddingOptions::Cut::hidden;
  double embedding_deviation = 0.02;
  double embedding_dropout = 0;
  TransformerBlockOptions block;  ///< of each block, but for its name
};

/// The segments "embedding", "block0" and so on; all tensor parallel over the axis "tp".
///
/// Shape:  ids [rows] int64, of the samples and tokens that the pass says -> [rows, hidden]; where rows are split, the rank's part
/// Kinds:  replicated -> replicated, or split
/// Throws: InvalidArgument for less than 1 word or layer; where the parts are made, for more ranks along "tp" than heads of
///         keys; where they run, for longer samples than the longest
std::vector<Segment> trunk(const TrunkOptions& options);

/// The part that holds the words' vectors.
Part words_part(const TrunkOptions& options);
/// The norm behind the blocks, "norm".
Part norm_part(const TrunkOptions& options);

}  // namespace adjoin::models
