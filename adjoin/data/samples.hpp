#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace adjoin::data {

/// A text and the name of its class, as in a file.
struct Sample {
  std::string text, label;
};

enum class Part { train, test };

/// The names of the columns of text and label in a file; "": a column that has one of the usual names.
struct Columns {
  std::string text, label;
  bool text_alone = false;  // labels are not read, and bytes that are not UTF-8 are kept
};

/// Reads texts one after the other, from any kind of file; with labels, unless the caller wants text alone. Texts are
/// unchanged, except that bytes that are not UTF-8 are dropped and counted, unless they are to be kept.
class SampleReader {
 public:
  virtual ~SampleReader() = default;

  /// Reads the next sample; false at the end.
  /// Throws: InvalidArgument, in one line with the file (and line) and what is wrong.
  virtual bool next(Sample& sample) = 0;

  /// Throws InvalidArgument about the sample that was read last, with its file (and line).
  [[noreturn]] virtual void fail(const std::string& what) = 0;

  int64_t dropped_bytes() const { return dropped_bytes_; }

 protected:
  int64_t dropped_bytes_ = 0;
};

/// The files of one part of a data set. `path` may be a folder that has, for the training part, one of these: train.csv,
/// train.tsv, train.jsonl, dataset_train.csv, …, each also with .gz, or train/CLASS/*.txt; and for the test part test.*,
/// dataset_val.* and test/ likewise. Or it is one source for both parts: one such file, or a folder CLASS/*.txt. Where there is a
/// class pos or neg, these two are the only classes, and positive texts come first; else classes and files come in the order of
/// their names.
/// Throws: InvalidArgument where there are none, and where there are two such files (except a file and its .gz).
std::vector<std::filesystem::path> sample_files(const std::string& path, Part part);

/// Whether a path is one source for both parts: a file, or a folder of classes.
bool is_one_source(const std::string& path);

/// Whether a folder has files of a part that sample_files would find.
bool has_samples(const std::string& folder, Part part);

/// Opens one part of a data set; sample_files says which files.
/// Throws: InvalidArgument as sample_files does, and where a file cannot be opened or lacks a column.
std::unique_ptr<SampleReader> open_samples(const std::string& path, Part part, const Columns& columns = {});

/// Opens one file of samples by the end of its name: .jsonl, .tsv, or any other for CSV, each also with .gz. The fields of a CSV
/// file are separated by commas, or by semicolons (separator_of_csv).
/// Throws: InvalidArgument where it cannot be opened or lacks a column.
std::unique_ptr<SampleReader> open_sample_file(const std::string& file, const Columns& columns);

/// The order in which to use the first samples: the classes take turns, from the last class to the first, each in the order of
/// the file; when one has no more samples the others continue. At most `count` indices.
std::vector<int64_t> balanced_order(std::span<const int32_t> labels, int64_t count);

/// Reads text files; each file's folder names its class.
std::unique_ptr<SampleReader> open_text_files(std::vector<std::filesystem::path> files, bool text_alone = false);

/// A path without the ".gz" at its end.
std::string_view without_gz(std::string_view path);

/// A user's text for an error: in quotes, on one line, and shortened.
std::string shortened(std::string text);

/// The first `most` names, each shortened, separated by commas.
std::string listed(const std::vector<std::string>& names, size_t most);

}  // namespace adjoin::data
