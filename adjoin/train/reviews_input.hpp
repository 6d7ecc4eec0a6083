#pragma once

#include "adjoin/data/wordpiece.hpp"
#include "adjoin/train/configuration.hpp"
#include "adjoin/train/dataset.hpp"

namespace adjoin::train {

/// The reviews of one part of `data`, "sample" being the embedded corpus; at most `samples` of them in balanced order
/// (0: all). A warning on stderr says how many bytes were no UTF-8.
/// Throws: InvalidArgument as load_reviews does
std::vector<data::Review> read_reviews(const std::string& data, data::Part part, int64_t samples);

/// What a training run works on.
struct TrainingInput {
  data::WordPiece tokenizer;
  Dataset train, test;
};

/// Reads reviews and the vocabulary that the configuration names; where it names none, one is learned from the training
/// reviews alone.
TrainingInput read_training_input(const Configuration& configuration);

}  // namespace adjoin::train
