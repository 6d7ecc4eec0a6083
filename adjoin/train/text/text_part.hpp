#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "adjoin/data/class_names.hpp"
#include "adjoin/data/token_store.hpp"
#include "adjoin/data/vocabulary.hpp"
#include "adjoin/data/wordpiece.hpp"
#include "adjoin/train/text/reviews_input.hpp"

namespace adjoin::train {

/// The labelled texts of one part of a source. They are read anew for each use, so that only labels are held.
class TextPart {
 public:
  /// Reads the labels, which name one of the given classes or, without them, make the classes.
  /// Throws: InvalidArgument as read_labels does
  TextPart(const TextSource& source, data::Part part, const std::optional<data::ClassNames>& given);

  const data::ClassNames& classes() const { return labels_.classes; }
  /// Of those that are used.
  int64_t size() const { return static_cast<int64_t>(order_.size()); }

  void count_words(data::WordCounter& counter) const;

  /// The samples that are used, in balanced order where they are not all.
  data::TokenStore tokenize(const data::WordPiece& tokenizer, int64_t sequence);

  /// Bytes that were no UTF-8, in what tokenize has read.
  int64_t dropped_bytes() const { return dropped_bytes_; }

 private:
  std::unique_ptr<data::SampleReader> open() const;
  template <class Visit>
  void for_each_used(data::SampleReader& reader, Visit visit) const;

  TextSource source_;
  data::Part part_;
  data::Labels labels_;
  std::vector<int64_t> order_;  // of the samples that are used
  std::vector<bool> is_used_;   // of each sample
  int64_t dropped_bytes_ = 0;
};

}  // namespace adjoin::train
