#pragma once

#include <filesystem>
#include <string>

#include "adjoin/data/class_names.hpp"
#include "adjoin/data/token_store.hpp"
#include "adjoin/data/tokenizer/wordpiece.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/model_folder.hpp"
#include "adjoin/task/text_source.hpp"

namespace adjoin::train {

/// What a model of texts was trained with. It is needed to use the model, and a resumed run keeps it.
struct Words {
  data::WordPiece tokenizer;
  data::ClassNames classes;
  std::string texts_file = {};  // the content of kTextsFile; "" if the model's folder has none
};

/// Reads them from a model's folder, or from one of transformers. Throws: InvalidArgument where a file is missing or not valid
Words read_words(const std::filesystem::path& folder);

/// The data of a training run.
struct TrainingInput : Words {
  data::TokenStore train, test;
};

/// Reads the texts and the vocabulary that the configuration names. If it names no vocabulary, one is learned from the training
/// texts only; a resumed run keeps the words of its checkpoint. Texts are read one after another and not kept; if the cache has
/// their tokens, these are mapped instead. Prints how much there is as soon as it is known.
/// Throws: InvalidArgument as the readers of samples do
TrainingInput read_training_input(const Configuration& configuration);

/// The tokens of the test part, with labels of the classes in `words`.
/// Throws: as above
data::TokenStore read_test_input(const TextSource& source, const Words& words, int64_t sequence);

}  // namespace adjoin::train
