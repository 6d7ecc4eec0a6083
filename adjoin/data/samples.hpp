#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace adjoin::data {

/// A text and the name of its class, as a file has them.
struct Sample {
  std::string text, label;
};

enum class Part { train, test };

/// The columns of text and label by their names in a file; "": those that have one of the usual names.
struct Columns {
  std::string text, label;
  bool text_alone = false;  // labels are not looked for, and bytes that are not UTF-8 are kept
};

/// Reads texts, labelled ones unless asked for text alone, one after the other, whatever they are kept in. Texts are as
/// they stand there, but for bytes that are not UTF-8, which are dropped and counted unless they are to be kept.
class SampleReader {
 public:
  virtual ~SampleReader() = default;

  /// Reads the next sample; false at the end.
  /// Throws: InvalidArgument, in one line that names the file (and line) and what is wrong with it.
  virtual bool next(Sample& sample) = 0;

  /// Throws InvalidArgument about the sample that was read last, naming its file (and line).
  [[noreturn]] virtual void fail(const std::string& what) = 0;

  int64_t dropped_bytes() const { return dropped_bytes_; }

 protected:
  int64_t dropped_bytes_ = 0;
};

/// The files of one part of a data set. `path` is a folder with, for the training part, one of these:
/// train.csv, train.tsv, train.jsonl, dataset_train.csv, …, each also with .gz, or train/{pos,neg}/*.txt; and for the
/// test part test.*, dataset_val.* and test/ likewise. A path may also be one such file, for both parts.
/// A tree's files come in the order of their names, positive ones first.
/// Throws: InvalidArgument where there are none, and where there are two such files (but for one and its .gz).
std::vector<std::filesystem::path> sample_files(const std::string& path, Part part);

/// Whether a folder has files of a part, as sample_files finds them.
bool has_samples(const std::string& folder, Part part);

/// Opens one part of a data set, as sample_files finds it.
/// Throws: InvalidArgument as sample_files does, and where a file cannot be opened or lacks a column.
std::unique_ptr<SampleReader> open_samples(const std::string& path, Part part, const Columns& columns = {});

/// Opens one file of samples by what its name ends in: .jsonl, .tsv, or any other for CSV, each also with .gz.
/// Throws: InvalidArgument where it cannot be opened or lacks a column.
std::unique_ptr<SampleReader> open_sample_file(const std::string& file, const Columns& columns);

/// The order in which the first samples are to be used: the classes by turns, from the last to the first, each in the
/// order of the file; where one runs out the others go on. At most `count` indices.
std::vector<int64_t> balanced_order(std::span<const int32_t> labels, int64_t count);

}  // namespace adjoin::data
