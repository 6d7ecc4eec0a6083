#pragma once

#include <optional>
#include <string>
#include <vector>

#include "adjoin/models/segment.hpp"
#include "adjoin/models/transformer_block.hpp"
#include "adjoin/models/transformer_options.hpp"
#include "adjoin/nn/embedding.hpp"
#include "adjoin/nn/positions.hpp"

namespace adjoin::models {

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
