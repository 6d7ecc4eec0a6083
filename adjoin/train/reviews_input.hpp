#pragma once

#include "adjoin/data/reviews.hpp"
#include "adjoin/data/wordpiece.hpp"
#include "adjoin/train/configuration.hpp"
#include "adjoin/train/dataset.hpp"

namespace adjoin::train {

/// The reviews of one part of `data`, "sample" being the embedded corpus; at most `samples` of them in balanced order
/// (0: all).
/// Throws: InvalidArgument as load_reviews does
data::Reviews read_reviews(const std::string& data, data::Part part, int64_t samples);

/// Says on stderr, once for a job, how many bytes of `data` were no UTF-8; nothing where none.
void warn_of_dropped_bytes(const std::string& data, int64_t bytes);

/// What a training run works on.
struct TrainingInput {
  data::WordPiece tokenizer;
  Dataset train, test;
};

/// Reads reviews and the vocabulary that the configuration names; where it names none, one is learned from the training
/// reviews alone. A resumed run keeps the vocabulary of its checkpoint. Says how much there is as soon as it is known.
TrainingInput read_training_input(const Configuration& configuration);

}  // namespace adjoin::train
