#pragma once

#include "adjoin/models/text_classifier.hpp"
#include "adjoin/models/trunk.hpp"
#include "adjoin/train/configuration.hpp"

namespace adjoin::train {

/// The transformer that a configuration describes, for a vocabulary of so many pieces, with all rows in one place: of the
/// configuration's layout it has the experts' axis alone.
/// Throws: InvalidArgument where the embedding has fewer rows than there are pieces
models::TransformerOptions transformer_options(const Configuration& configuration, int64_t pieces);

/// Its head where it classifies texts.
models::ClassifierOptions classifier_options(const Configuration& configuration, int64_t classes);

/// Most tokens that a configuration's model has positions for.
int64_t context_of(const Configuration& configuration);

}  // namespace adjoin::train
