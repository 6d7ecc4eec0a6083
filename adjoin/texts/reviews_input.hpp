#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/data/class_names.hpp"
#include "adjoin/data/token_store.hpp"
#include "adjoin/data/tokenizer/wordpiece.hpp"
#include "adjoin/data/vocabulary.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/model_folder.hpp"
#include "adjoin/task/text_source.hpp"

namespace adjoin::train {

/// The labelled texts of one part of a source. Each use reads them again, so that only labels are in memory.
class TextPart {
 public:
  /// Reads the labels. They must name one of the given classes; if none are given, they define the classes.
  /// Throws: InvalidArgument as read_labels does
  TextPart(const TextSource& source, data::Part part, const std::optional<data::ClassNames>& given);

  const data::ClassNames& classes() const { return labels_.classes; }
  /// The number of samples that are used.
  int64_t size() const { return static_cast<int64_t>(order_.size()); }

  void count_words(data::WordCounter& counter) const;

  /// The samples that are used; if these are not all, in balanced order.
  data::TokenStore tokenize(const data::WordPiece& tokenizer, int64_t sequence);

  /// Bytes that were not UTF-8, in the texts that tokenize has read.
  int64_t dropped_bytes() const { return dropped_bytes_; }

 private:
  std::unique_ptr<data::SampleReader> open() const;
  template <class Visit>
  void for_each_used(data::SampleReader& reader, Visit visit) const;

  TextSource source_;
  data::Part part_;
  data::Labels labels_;
  std::vector<int64_t> order_;  // the indices of the samples that are used
  std::vector<bool> is_used_;   // for each sample
  int64_t dropped_bytes_ = 0;
};

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
