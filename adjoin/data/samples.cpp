#include "adjoin/data/samples.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "adjoin/base/error.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/data/text_file.hpp"

namespace adjoin::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 6;  // in a message

std::string tree_name(Part part) {
  return part == Part::train ? "train" : "test";
}

std::vector<std::string> file_names(Part part) {
  std::vector<std::string> names;
  for (const char* stem :
       {part == Part::train ? "train" : "test", part == Part::train ? "dataset_train" : "dataset_val"})
    for (const char* ending : {".csv", ".csv.gz", ".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz"})
      names.push_back(std::string(stem) + ending);
  return names;
}

bool is_text(const fs::directory_entry& entry) {
  return entry.path().extension() == ".txt";
}

std::vector<fs::path> text_files(const fs::path& folder) {
  require(fs::is_directory(folder), [&] { return folder.string() + ": missing; expected a folder of .txt files"; });
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (is_text(entry)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  require(!files.empty(), [&] { return folder.string() + ": no texts; expected .txt files"; });
  return files;
}

/// The subfolders of a folder that are classes. The tree of aclImdb has a folder beside pos and neg that is none.
std::vector<fs::path> class_folders(const fs::path& folder) {
  if (!fs::is_directory(folder)) return {};
  if (fs::is_directory(folder / "pos") || fs::is_directory(folder / "neg")) return {folder / "pos", folder / "neg"};
  std::vector<fs::path> classes;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const bool is_hidden = entry.path().filename().string().starts_with('.');
    if (!is_hidden && entry.is_directory() && std::any_of(fs::directory_iterator(entry), {}, is_text))
      classes.push_back(entry.path());
  }
  std::sort(classes.begin(), classes.end());
  return classes;
}

std::vector<fs::path> tree_files(const fs::path& folder) {
  const std::vector<fs::path> classes = class_folders(folder);
  require(!classes.empty(), [&] { return folder.string() + ": expected a folder of .txt files for each class"; });
  std::vector<fs::path> files;
  for (const fs::path& name : classes)
    for (fs::path& file : text_files(name)) files.push_back(std::move(file));
  return files;
}

/// "" if none of the names exists. A file and its gzipped twin may both exist.
/// Throws: InvalidArgument where two files match
fs::path named_file(const fs::path& folder, Part part) {
  std::string found;
  for (const std::string& name : file_names(part)) {
    if (!fs::is_regular_file(folder / name) || (!found.empty() && without_gz(name) == found)) continue;
    require(found.empty(), [&] {
      return folder.string() + ": has " + found + " and " + name + ", expected one file of " + tree_name(part) +
             "ing samples";
    });
    found = name;
  }
  return found.empty() ? fs::path() : folder / found;
}

/// Whether a folder has classes and neither a training part nor a test part.
bool is_folder_of_classes(const fs::path& folder) {
  for (const Part part : {Part::train, Part::test})
    if (fs::is_directory(folder / tree_name(part)) || !named_file(folder, part).empty()) return false;
  return !class_folders(folder).empty();
}

std::vector<fs::path> files_of_folder(const fs::path& folder, Part part) {
  if (const fs::path file = named_file(folder, part); !file.empty()) return {file};
  if (is_folder_of_classes(folder)) return tree_files(folder);
  const std::string tree = tree_name(part);
  require(fs::is_directory(folder / tree), [&] {
    return folder.string() + ": no " + tree + "ing samples; expected one of " + listed(file_names(part), kMostFiles) +
           ", a folder " + tree + " with CLASS/*.txt, or CLASS/*.txt";
  });
  return tree_files(folder / tree);
}

}  // namespace

std::vector<fs::path> sample_files(const std::string& path, Part part) {
  require(fs::exists(path), [&] { return path + ": no such file or folder"; });
  if (fs::is_directory(path)) return files_of_folder(path, part);
  return {path};
}

bool has_samples(const std::string& folder, Part part) {
  return !named_file(folder, part).empty() || !class_folders(fs::path(folder) / tree_name(part)).empty();
}

bool is_one_source(const std::string& path) {
  return fs::is_regular_file(path) || (fs::is_directory(path) && is_folder_of_classes(path));
}

std::unique_ptr<SampleReader> open_samples(const std::string& path, Part part, const Columns& columns) {
  std::vector<fs::path> files = sample_files(path, part);
  const std::string file = files.front().string();
  const bool is_tree = fs::is_directory(path) && without_gz(file).ends_with(".txt");
  if (!is_tree) return open_sample_file(file, columns);
  require(columns.text.empty() && columns.label.empty(),
          [&] { return path + ": --text-column and --label-column name columns, but text files have no columns"; });
  return open_text_files(std::move(files), columns.text_alone);
}

std::vector<int64_t> balanced_order(std::span<const int32_t> labels, int64_t count) {
  const auto classes =
      labels.empty() ? size_t{0} : static_cast<size_t>(*std::max_element(labels.begin(), labels.end())) + 1;
  std::vector<std::vector<int64_t>> of_class(classes);
  for (size_t i = 0; i < labels.size(); ++i)
    of_class[classes - 1 - static_cast<size_t>(labels[i])].push_back(static_cast<int64_t>(i));
  const size_t most = std::min(labels.size(), static_cast<size_t>(std::max<int64_t>(count, 0)));
  std::vector<int64_t> order;
  for (size_t turn = 0; order.size() < most; ++turn)
    for (const auto& samples : of_class)
      if (turn < samples.size() && order.size() < most) order.push_back(samples[turn]);
  return order;
}

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostColumns = 20;  // in a message

std::string normalized(const std::string& word) {
  std::string lower;
  for (const unsigned char c : word)  // not char: negative numbers have no category
    if (!std::isspace(c)) lower += static_cast<char>(std::tolower(c));
  return lower;
}

/// The place of the column with this name; without a name, of the first usual name that exists, in order of preference.
/// Throws: InvalidArgument where two columns have the name
std::optional<size_t> find_column(const std::vector<std::string>& there, const std::string& wanted,
                                  std::initializer_list<const char*> usual, const std::string& where) {
  const auto column_named = [&](const auto& is_named) -> std::optional<size_t> {
    const auto found = std::find_if(there.begin(), there.end(), is_named);
    if (found == there.end()) return std::nullopt;
    const auto other = std::find_if(found + 1, there.end(), is_named);
    require(other == there.end(), [&] {
      return where + ": expected one column with this name, found " + shortened(*found) + " and " + shortened(*other);
    });
    return found - there.begin();
  };
  if (!wanted.empty()) return column_named([&](const std::string& name) { return name == wanted; });
  for (const char* name : usual)
    if (const auto found = column_named([&](const std::string& column) { return normalized(column) == name; }))
      return found;
  return std::nullopt;
}

/// The places of text and label among a file's columns. Without labels the label column is the text column.
struct FoundColumns {
  size_t text, label;
};

/// Throws: InvalidArgument that begins with `where` and lists the file's columns
FoundColumns find_columns(const std::vector<std::string>& there, const Columns& wanted, const std::string& where) {
  const auto text = find_column(there, wanted.text, {"text", "review"}, where);
  const auto label = wanted.text_alone ? text : find_column(there, wanted.label, {"label", "sentiment"}, where);
  if (text && label) {
    require(*text != *label || wanted.text_alone,
            [&] { return where + ": text and label are the same column, " + shortened(there[*text]); });
    return {*text, *label};
  }
  const auto missing = [](const std::string& name, const char* option, const char* usual) {
    return name.empty() ? std::string(usual) + ", and no column is named by " + option
                        : shortened(name) + " (" + option + ")";
  };
  throw InvalidArgument(where + ": no column " +
                        (!text ? missing(wanted.text, "--text-column", "\"text\" or \"review\"")
                               : missing(wanted.label, "--label-column", "\"label\" or \"sentiment\"")) +
                        "; found: " + listed(there, kMostColumns));
}

/// A file of separated fields, whose first record names the columns.
class SeparatedSamples final : public SampleReader {
 public:
  SeparatedSamples(const std::string& path, Separator separator, const Columns& wanted)
      : csv_(path, separator), text_alone_(wanted.text_alone) {
    require(csv_.next(fields_), [&] { return path + ": the file is empty; expected a header and samples"; });
    columns_ = find_columns(fields_, wanted, path + ":" + std::to_string(csv_.line()));
  }

  bool next(Sample& sample) override {
    if (!csv_.next(fields_)) {
      require(any_, [&] { return csv_.path() + ": no samples follow the header"; });
      return false;
    }
    any_ = true;
    sample.text = fields_[columns_.text];
    if (text_alone_) return true;
    sample.label = fields_[columns_.label];
    dropped_bytes_ += drop_invalid_utf8(sample.text);
    return true;
  }

  void fail(const std::string& what) override { csv_.fail(csv_.line(), what); }

 private:
  CsvReader csv_;
  bool text_alone_;
  std::vector<std::string> fields_;
  FoundColumns columns_{};
  bool any_ = false;
};

/// One JSON object in each line. Labels may be strings, numbers or booleans. JSON is UTF-8, so bytes that are not are always
/// dropped.
class JsonLineSamples final : public SampleReader {
 public:
  JsonLineSamples(const std::string& path, const Columns& wanted) : file_(path), names_(wanted) {
    require(read_object(), [&] { return path + ": the file is empty; expected one JSON object per line"; });
    const std::vector<std::string> there = keys();
    const FoundColumns found = find_columns(there, wanted, path + ":" + std::to_string(line_));
    names_ = {there[found.text], there[found.label], wanted.text_alone};
  }

  bool next(Sample& sample) override {
    if (!read_ahead_ && !read_object()) return false;
    read_ahead_ = false;
    const nlohmann::json& text = member(names_.text);
    if (!text.is_string()) fail("\"" + names_.text + "\" is " + text.type_name() + ", expected a string");
    sample.text = text.get<std::string>();
    if (names_.text_alone) return true;
    const nlohmann::json& label = member(names_.label);
    if (!label.is_string() && !label.is_number() && !label.is_boolean())
      fail("\"" + names_.label + "\" is " + label.type_name() + ", expected a string, a number or a boolean");
    sample.label = label.is_string() ? label.get<std::string>() : label.dump();
    return true;
  }

  void fail(const std::string& what) override { file_.fail(line_, what); }

 private:
  bool read_object() {
    if (!file_.next_line(text_)) return false;
    line_ = file_.line();
    dropped_bytes_ += drop_invalid_utf8(text_);
    object_ = nlohmann::json::parse(text_, nullptr, /*allow_exceptions=*/false);
    if (!object_.is_object()) fail("expected a JSON object, found " + shortened(text_));
    return true;
  }

  std::vector<std::string> keys() const {
    std::vector<std::string> keys;
    for (const auto& [key, value] : object_.items()) keys.push_back(key);
    return keys;
  }

  const nlohmann::json& member(const std::string& name) {
    const auto found = object_.find(name);
    if (found == object_.end())
      fail("no \"" + name + "\", which the first line has; found: " + listed(keys(), kMostColumns));
    return *found;
  }

  TextFile file_;
  Columns names_;
  std::string text_;
  int64_t line_ = 0;
  nlohmann::json object_;
  bool read_ahead_ = true;  // the first object was read to find the columns
};

class TextFileSamples final : public SampleReader {
 public:
  TextFileSamples(std::vector<fs::path> files, bool text_alone) : files_(std::move(files)), text_alone_(text_alone) {}

  bool next(Sample& sample) override {
    if (at_ == files_.size()) return false;
    const fs::path& path = files_[at_++];
    require(fs::is_regular_file(path), [&] { return path.string() + ": expected a text file, this is not a file"; });
    std::ifstream file(path, std::ios::binary);
    sample.text.assign(std::istreambuf_iterator<char>(file), {});
    require(file.is_open() && !file.bad(), [&] { return path.string() + ": cannot read the text"; });
    if (text_alone_) return true;
    sample.label = path.parent_path().filename().string();
    dropped_bytes_ += drop_invalid_utf8(sample.text);
    return true;
  }

  void fail(const std::string& what) override { throw InvalidArgument(files_[at_ - 1].string() + ": " + what); }

 private:
  std::vector<fs::path> files_;
  bool text_alone_;
  size_t at_ = 0;
};

}  // namespace

std::string shortened(std::string text) {
  constexpr size_t kMost = 40;
  drop_invalid_utf8(text);
  if (text.size() > kMost) {
    text.resize(kMost);
    drop_invalid_utf8(text);
    text += "...";
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  return '"' + printable(text) + '"';
}

std::string listed(const std::vector<std::string>& names, size_t most) {
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) list += (i ? ", " : "") + shortened(names[i]);
  return names.size() > most ? list + ", ..." : list;
}

std::unique_ptr<SampleReader> open_sample_file(const std::string& file, const Columns& columns) {
  const std::string_view name = without_gz(file);
  if (name.ends_with(".jsonl")) return std::make_unique<JsonLineSamples>(file, columns);
  const Separator separator = name.ends_with(".tsv") ? Separator::tab : separator_of_csv(file);
  return std::make_unique<SeparatedSamples>(file, separator, columns);
}

std::unique_ptr<SampleReader> open_text_files(std::vector<fs::path> files, bool text_alone) {
  return std::make_unique<TextFileSamples>(std::move(files), text_alone);
}

std::string_view without_gz(std::string_view path) {
  return path.ends_with(".gz") ? path.substr(0, path.size() - 3) : path;
}

}  // namespace adjoin::data
