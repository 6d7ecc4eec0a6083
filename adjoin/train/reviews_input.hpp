#pragma once

#include <optional>
#include <string>

#include "adjoin/data/class_names.hpp"
#include "adjoin/data/samples.hpp"
#include "adjoin/data/token_store.hpp"
#include "adjoin/data/wordpiece.hpp"
#include "adjoin/train/configuration.hpp"

namespace adjoin::train {

/// The texts that a command is to read: both parts of `data`, "sample" being the embedded corpus; at most `samples` of each
/// in balanced order (0: all).
struct TextSource {
  std::string data;
  data::Columns columns;
  int64_t samples = 0;
};

/// What a training run works on.
struct TrainingInput {
  data::WordPiece tokenizer;
  data::ClassNames classes;
  data::TokenStore train, test;
};

/// Reads texts and the vocabulary that the configuration names; where it names none, one is learned from the training
/// texts alone. A resumed run keeps the vocabulary and the classes of its checkpoint. Texts pass through one after another;
/// where the cache has their tokens, these are mapped instead. Says how much there is as soon as it is known.
/// Throws: InvalidArgument as the readers of samples do
TrainingInput read_training_input(const Configuration& configuration);

/// The tokens of the test part, whose labels are of these classes.
/// Throws: as above
data::TokenStore read_test_input(const TextSource& source, const data::WordPiece& tokenizer,
                                 const data::ClassNames& classes, int64_t sequence);

}  // namespace adjoin::train
