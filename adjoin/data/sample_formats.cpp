#include "adjoin/data/sample_formats.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "adjoin/base/error.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/data/csv.hpp"
#include "adjoin/data/text_file.hpp"

namespace adjoin::data {
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
