#pragma once

#include <vector>

#include "adjoin/models/transformer_options.hpp"
#include "adjoin/models/trunk.hpp"

namespace adjoin::models {

/// The trunk, and the classifier as "head"; tensor parallel over the axis "tp" of the grid.
///
/// Shape:  ids [rows] int64, of the samples and tokens that the pass says -> scores [samples, classes], on every rank; with
///         context parallelism the scores of a balanced part of the samples
/// Kinds:  replicated -> replicated
/// Cost:   forward one all-gather for each kind of embedding (words, positions, token types) and 2 layers + 1 all-reduces;
///         backward 2 layers + 1 all-reduces
/// Throws: InvalidArgument as trunk, and for less than 1 class
/// Source: Devlin et al., "BERT", arXiv 1810.04805
std::vector<Segment> text_classifier(const TransformerOptions& options, const ClassifierOptions& head);

}  // namespace adjoin::models
