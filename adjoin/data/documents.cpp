#include "adjoin/data/documents.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/data/sample_corpus.hpp"
#include "adjoin/data/samples.hpp"
#include "adjoin/data/text_file.hpp"

namespace adjoin::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kHeldOutPerCent = 5;

bool holds_rows(const fs::path& file) {
  const std::string name = file.filename().string();
  const std::string_view plain = without_gz(name);
  return plain.ends_with(".csv") || plain.ends_with(".tsv") || plain.ends_with(".jsonl");
}

/// The paragraphs of a text.
class Paragraphs final : public SampleReader {
 public:
  explicit Paragraphs(const std::string& path) : file_(path) {}

  bool next(Sample& sample) override {
    sample.text.clear();
    while (file_.peek() != TextFile::kEnd) {
      const int64_t number = file_.line();
      read_line();
      if (text_.find_first_not_of(" \t\v\f\r") == text_.npos) {  // the line separates paragraphs
        if (!sample.text.empty()) return true;
        continue;
      }
      if (sample.text.empty()) line_ = number;
      sample.text.append(sample.text.empty() ? "" : "\n").append(text_);
    }
    return !sample.text.empty();
  }

  void fail(const std::string& what) override { file_.fail(line_, what); }

 private:
  void read_line() {
    text_.clear();
    file_.take_until('\n', text_);
    file_.take();
    if (text_.ends_with('\r')) text_.pop_back();
  }

  TextFile file_;
  std::string text_;  // of a line
  int64_t line_ = 0;  // where the paragraph begins
};

/// Several readers as one, opened one after another, without empty texts; of the remaining texts only a range.
class Chain final : public SampleReader {
 public:
  using Open = std::function<std::unique_ptr<SampleReader>(size_t)>;

  Chain(std::string name, size_t readers, Open open, int64_t begin, int64_t end)
      : name_(std::move(name)), readers_(readers), open_(std::move(open)), begin_(begin), end_(end) {}

  bool next(Sample& sample) override {
    while (at_ < end_) {
      if (!reader_ && opened_ == readers_) break;
      if (!reader_) reader_ = open_(opened_++);
      if (!reader_->next(sample)) {
        dropped_bytes_ += reader_->dropped_bytes();
        reader_.reset();
      } else if (!sample.text.empty() && at_++ >= begin_) {
        return true;
      }
    }
    require(at_ > 0, [&] { return name_ + ": holds no text"; });
    return false;
  }

  void fail(const std::string& what) override {
    reader_ ? reader_->fail(what) : throw InvalidArgument(name_ + ": " + what);
  }

 private:
  std::string name_;
  size_t readers_;
  Open open_;
  int64_t begin_, end_, at_ = 0;
  size_t opened_ = 0;
  std::unique_ptr<SampleReader> reader_;
};

/// Whether a file's beginning has no byte 0, which is how git tells a text too.
bool is_text_file(const fs::path& file) {
  std::array<char, 8000> beginning{};
  std::ifstream in(file, std::ios::binary);
  in.read(beginning.data(), beginning.size());
  const auto end = beginning.begin() + in.gcount();
  return std::find(beginning.begin(), end, '\0') == end;
}

/// All texts in a folder and its subfolders, such as source code, but tables and what is hidden.
std::vector<fs::path> texts_under(const fs::path& folder) {
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator entry(folder), end; entry != end; ++entry) {
    if (entry->path().filename().string().starts_with('.'))
      entry.disable_recursion_pending();
    else if (entry->is_regular_file() && !holds_rows(entry->path()) && is_text_file(entry->path()))
      files.push_back(entry->path());
  }
  return files;
}

std::vector<fs::path> files_of_folder(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".txt" || holds_rows(entry.path())) files.push_back(entry.path());
  if (files.empty()) files = texts_under(folder);
  std::sort(files.begin(), files.end());
  require(!files.empty(), [&] {
    return folder.string() +
           ": no documents; expected .txt, .csv, .tsv or .jsonl files (the last three also .gz), or texts of any kind";
  });
  return files;
}

std::unique_ptr<SampleReader> open_file(const fs::path& file, bool whole, const Columns& columns) {
  if (holds_rows(file)) return open_sample_file(file.string(), columns);
  require(columns.text.empty(),
          [&] { return file.string() + ": --text-column names a column, but a text file has no columns"; });
  if (whole) return open_text_files({file}, columns.text_alone);
  return std::make_unique<Paragraphs>(file.string());
}

std::unique_ptr<SampleReader> open_chain(const std::string& path, Part part, const std::string& text_column,
                                         int64_t begin, int64_t end) {
  if (path == "sample") {
    const auto open = [](size_t i) { return open_sample_corpus(i == 0 ? Part::train : Part::test); };
    return std::make_unique<Chain>(path, 2, open, begin, end);
  }
  std::vector<fs::path> files = document_files(path, part);
  const size_t count = files.size();
  const Columns columns{.text = text_column, .label = "", .text_alone = true};
  auto open = [files = std::move(files), whole = fs::is_directory(path), columns](size_t i) {
    return open_file(files[i], whole, columns);
  };
  return std::make_unique<Chain>(path, count, std::move(open), begin, end);
}

}  // namespace

std::vector<fs::path> document_files(const std::string& path, Part part) {
  require(fs::exists(path), [&] { return path + ": no such file or folder"; });
  if (!fs::is_directory(path)) return {path};
  return has_samples(path, part) ? sample_files(path, part) : files_of_folder(path);
}

bool has_paragraphs(const std::string& path) {
  return path != "sample" && !fs::is_directory(path) && !holds_rows(path);
}

bool tells_parts(const std::string& path) {
  return path != "sample" && fs::is_directory(path) && has_samples(path, Part::train) && has_samples(path, Part::test);
}

Documents::Documents(DocumentSource source) : source_(std::move(source)) {
  if (source_.test.empty() && tells_parts(source_.data)) source_.test = source_.data;
  has_test_ = !source_.test.empty();
  if (has_test_) return;
  int64_t documents = 0;
  const auto reader = open(Part::train);
  for (Sample sample; reader->next(sample);) ++documents;
  require(documents > 1, [&] {
    return source_.data + ": holds one document, expected at least 2, because the last ones are held out for testing";
  });
  train_.end = held_out_.begin = documents - std::max<int64_t>(documents * kHeldOutPerCent / 100, 1);
}

std::unique_ptr<SampleReader> Documents::open(Part part) const {
  if (part == Part::test && has_test_) return open_chain(source_.test, part, source_.text_column, 0, Range{}.end);
  const Range& range = part == Part::train ? train_ : held_out_;
  return open_chain(source_.data, Part::train, source_.text_column, range.begin, range.end);
}

}  // namespace adjoin::data
