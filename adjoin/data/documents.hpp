#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/data/samples.hpp"

namespace adjoin::data {

/// Names the documents of a language model.
struct DocumentSource {
  std::string data{};         // "sample", a file or a folder
  std::string test{};         // likewise, for the test part; "": a part of `data` is held out
  std::string text_column{};  // as in Columns::text
};

/// The files of a part, or all files of documents if the folder does not separate parts.
/// Throws: InvalidArgument where there are none
std::vector<std::filesystem::path> document_files(const std::string& path, Part part);

/// Whether the documents of a path are the paragraphs of a file.
bool has_paragraphs(const std::string& path);

/// Whether a path is a folder with a training and a test part.
bool tells_parts(const std::string& path);

/// Documents in a training and a test part, which are read one after the other and not kept. A document is:
///  - the text of a row of a .csv, .tsv or .jsonl file, each also with .gz;
///  - a paragraph of any other file, which may be gzipped: what is between lines of white space; its lines end in LF;
///  - a .txt file of a folder, or a row of the folder's tables as above, in the order of the files' names;
///  - if a folder has none of these: each text in it and its subfolders, such as source code, but for tables and hidden files;
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
