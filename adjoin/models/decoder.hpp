#pragma once

#include <vector>

#include "adjoin/models/trunk.hpp"

namespace adjoin::models {

/// A transformer that predicts the next word, of GPT's shape: the trunk with causal attention and an embedding that is cut by
/// words, and as "head" a norm and the scores of all words. The scores use the embedding's weight or, where they are not tied,
/// their own weight, "scores". Tensor parallel over the axis "tp" of the grid.
///
/// A sample attends only to itself: documents that are packed into one sequence are separate samples.
///
/// Shape:  ids [rows] int64, of the samples and tokens that the pass says -> scores [rows, words of this rank]
/// Kinds:  replicated -> split, as nn::vocabulary_parallel_cross_entropy needs them
/// Cost:   forward 2 layers + 1 all-reduces, and an all-gather where positions are learned; backward 2 layers + 1 all-reduces
/// Throws: InvalidArgument as trunk, and for a context below 1
/// Source: Radford et al., "Language models are unsupervised multitask learners", 2019; Shoeybi et al., arXiv 1909.08053
std::vector<Segment> decoder(TransformerOptions options, bool tied_scores = true);

}  // namespace adjoin::models
