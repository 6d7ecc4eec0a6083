#pragma once

#include "adjoin/models/text_classifier.hpp"
#include "adjoin/models/trunk.hpp"
#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// The transformer that a configuration describes, for a vocabulary of `pieces` pieces, with all rows in one place: of the
/// configuration's layout only the experts' axis is used.
/// Throws: InvalidArgument where the embedding has fewer rows than there are pieces
models::TransformerOptions transformer_options(const Configuration& configuration, int64_t pieces);

/// The head of a configuration's model that classifies texts.
models::ClassifierOptions classifier_options(const Configuration& configuration, int64_t classes);

/// The most tokens for which a configuration's model has positions.
int64_t context_of(const Configuration& configuration);

}  // namespace adjoin::train
