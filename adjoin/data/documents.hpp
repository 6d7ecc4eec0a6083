#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "adjoin/data/samples.hpp"

namespace adjoin::data {

/// Where the documents of a language model come from.
struct DocumentSource {
  std::string data{};         // "sample", a file or a folder
  std::string test{};         // likewise, the test part; "": what is held out
  std::string text_column{};  // as Columns::text
};

/// Documents, a training and a test part of them, which are read one after the other and not kept. These are documents:
///  - a row of a .csv, .tsv or .jsonl file, each also with .gz: its text;
///  - a paragraph between empty lines of any other file, which may be gzipped; its lines end in LF;
///  - a .txt file of a folder, and a row of its other files as above, in the order of the files' names;
///  - a review of the sample corpus, training reviews first.
/// Of a folder with a training part as sample_files finds it (train.csv, …) that is taken, with its test part where it
/// has one. Else the last 5 % of the documents, one at least, are the test part, unless the source names another.
/// Empty documents are left out; all others are kept to the byte, though JSON cannot keep what is not UTF-8.
class Documents {
 public:
  /// Cost: reads everything once where a part is held out
  /// Throws: InvalidArgument, in one line, where there is nothing to read or hold out, and for files as their readers do
  explicit Documents(DocumentSource source);

  /// The documents of a part: samples without labels. Memory: the longest document.
  /// Throws: InvalidArgument; reading does too, also at its end where it has found no text
  std::unique_ptr<SampleReader> open(Part part) const;

 private:
  struct Range {
    int64_t begin = 0, end = std::numeric_limits<int64_t>::max();
  };

  DocumentSource source_;
  bool has_test_ = false;  // which begins at its own beginning
  Range train_, held_out_;
};

}  // namespace adjoin::data
