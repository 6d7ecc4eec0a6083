#pragma once

#include <filesystem>
#include <string>

#include "adjoin/data/class_names.hpp"
#include "adjoin/data/token_store.hpp"
#include "adjoin/data/wordpiece.hpp"
#include "adjoin/train/configuration.hpp"
#include "adjoin/train/text/text_source.hpp"

namespace adjoin::train {

/// What a model of texts was trained with: needed to use it, and all that a resumed run keeps of its data.
struct Words {
  data::WordPiece tokenizer;
  data::ClassNames classes;
};

/// The names of the classes, in a model's folder.
inline constexpr const char* kClassesFile = "classes.json";

/// Those in a model's folder, or in one of transformers. Throws: InvalidArgument where a file lacks or is not what it should be
Words read_words(const std::filesystem::path& folder);

/// What a training run works on.
struct TrainingInput : Words {
  data::TokenStore train, test;
};

/// Reads texts and the vocabulary that the configuration names; where it names none, one is learned from the training
/// texts alone; a resumed run keeps the words of its checkpoint. Texts pass through one after another;
/// where the cache has their tokens, these are mapped instead. Says how much there is as soon as it is known.
/// Throws: InvalidArgument as the readers of samples do
TrainingInput read_training_input(const Configuration& configuration);

/// The tokens of the test part, whose labels are of these classes.
/// Throws: as above
data::TokenStore read_test_input(const TextSource& source, const Words& words, int64_t sequence);

}  // namespace adjoin::train
