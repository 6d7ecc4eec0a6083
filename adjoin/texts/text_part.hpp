#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "adjoin/data/class_names.hpp"
#include "adjoin/data/token_store.hpp"
#include "adjoin/data/tokenizer/wordpiece.hpp"
#include "adjoin/data/vocabulary.hpp"
#include "adjoin/texts/reviews_input.hpp"

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

}  // namespace adjoin::train
