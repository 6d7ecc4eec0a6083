#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "adjoin/data/samples.hpp"

namespace adjoin::data {

/// Names the documents of a language model.
struct DocumentSource {
  std::string data{};         // "sample", a file or a folder
  std::string test{};         // likewise, for the test part; "": a part of `data` is held out
  std::string text_column{};  // as in Columns::text
};

/// Documents in a training and a test part, which are read one after the other and not kept. A document is:
///  - the text of a row of a .csv, .tsv or .jsonl file, each also with .gz;
///  - a paragraph between empty lines of any other file, which may be gzipped; its lines end in LF;
///  - a .txt file of a folder, or a row of the folder's other files as above, in the order of the files' names;
///  - a review of the sample corpus, training reviews first.
/// If a folder has a training part as sample_files finds it (train.csv, …), that part is used, and its test part if it has one.
/// Else the last 5 % of the documents, at least one, are the test part, unless the source names another. Empty documents are
/// dropped; all others are kept to the byte, except that JSON cannot hold what is not UTF-8.
class Documents {
 public:
  /// Cost: reads everything once where a part is held out
  /// Throws: InvalidArgument, in one line, where there is nothing to read or nothing to hold out, and for files as their
  ///         readers do
  explicit Documents(DocumentSource source);

  /// The documents of a part, as samples without labels. Memory: the longest document.
  /// Throws: InvalidArgument; reading also throws it, at the end too if there was no text
  std::unique_ptr<SampleReader> open(Part part) const;

 private:
  struct Range {
    int64_t begin = 0, end = std::numeric_limits<int64_t>::max();
  };

  DocumentSource source_;
  bool has_test_ = false;  // a separate test part
  Range train_, held_out_;
};

}  // namespace adjoin::data
