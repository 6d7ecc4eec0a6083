#include "adjoin/data/reviews.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <optional>

#include "adjoin/base/error.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/data/csv.hpp"

namespace adjoin::data {
namespace {

namespace fs = std::filesystem;

std::string normalized(const std::string& word) {
  std::string lower;
  for (const unsigned char c : word)  // not char: what is negative has no category
    if (!std::isspace(c)) lower += static_cast<char>(std::tolower(c));
  return lower;
}

/// The place of the first of `names`, the preferred one first, in the header.
std::optional<size_t> find_column(const std::vector<std::string>& header, std::initializer_list<const char*> names) {
  for (const char* name : names)
    for (size_t i = 0; i < header.size(); ++i)
      if (normalized(header[i]) == name) return i;
  return std::nullopt;
}

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

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kMost = 6;
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) list += (i ? ", " : "") + shortened(names[i]);
  return names.size() > kMost ? list + ", ..." : list;
}

struct Columns {
  size_t text, label;
};

Columns find_columns(const CsvReader& csv, const std::vector<std::string>& header) {
  const auto text = find_column(header, {"text", "review"});
  const auto label = find_column(header, {"label", "sentiment"});
  require(text && label, [&] {
    const char* missing = text    ? "no column \"label\""
                          : label ? "no column \"text\" or \"review\""
                                  : "no known columns";
    return csv.path() + ":1: " + missing +
           "; the header must name \"text\" (or \"review\") and \"label\", found: " + listed(header);
  });
  return {*text, *label};
}

int parse_label(CsvReader& csv, const std::string& value) {
  const std::string word = normalized(value);
  if (word == "1" || word == "positive" || word == "pos") return 1;
  if (word == "0" || word == "negative" || word == "neg") return 0;
  csv.fail(csv.line(), "unknown label " + shortened(value) + "; expected 0 or 1, neg or pos, negative or positive");
}

std::string read_file(const fs::path& path) {
  require(fs::is_regular_file(path), [&] { return path.string() + ": expected a review, this is no file"; });
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  require(file.is_open() && !file.bad(), [&] { return path.string() + ": cannot read the review"; });
  return text;
}

std::vector<fs::path> text_files(const fs::path& folder) {
  require(fs::is_directory(folder), [&] { return folder.string() + ": missing; expected a folder of .txt reviews"; });
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  require(!files.empty(), [&] { return folder.string() + ": no reviews; expected .txt files"; });
  return files;
}

Reviews load_tree(const fs::path& folder) {
  Reviews reviews;
  for (const auto& [name, label] : {std::pair{"pos", 1}, std::pair{"neg", 0}})
    for (const fs::path& file : text_files(folder / name)) {
      reviews.samples.push_back({read_file(file), label});
      reviews.dropped_bytes += drop_invalid_utf8(reviews.samples.back().text);
    }
  return reviews;
}

std::vector<std::string> file_names(Part part) {
  if (part == Part::train) return {"train.csv", "train.csv.gz", "dataset_train.csv", "dataset_train.csv.gz"};
  return {"test.csv", "test.csv.gz", "dataset_val.csv", "dataset_val.csv.gz"};
}

Reviews load_folder(const fs::path& folder, Part part) {
  for (const std::string& name : file_names(part))
    if (fs::is_regular_file(folder / name)) return load_reviews_csv((folder / name).string());
  const std::string tree = part == Part::train ? "train" : "test";
  require(fs::is_directory(folder / tree), [&] {
    return folder.string() + ": no " + tree + "ing reviews; expected one of " + listed(file_names(part)) +
           " or a folder " + tree + " with pos/*.txt and neg/*.txt";
  });
  return load_tree(folder / tree);
}

}  // namespace

Reviews load_reviews(const std::string& path, Part part) {
  require(fs::exists(path), [&] { return path + ": no such file or folder"; });
  if (fs::is_directory(path)) return load_folder(path, part);
  require(part == Part::test, [&] {
    return path + ": is a file; training needs a folder with train.csv and test.csv (or .csv.gz, or train/ and test/)";
  });
  return load_reviews_csv(path);
}

Reviews load_reviews_csv(const std::string& path) {
  CsvReader csv(path);
  std::vector<std::string> fields;
  require(csv.next(fields), [&] { return path + ": the file is empty; expected a header and reviews"; });
  const Columns columns = find_columns(csv, fields);
  Reviews reviews;
  while (csv.next(fields)) {
    reviews.samples.push_back({fields[columns.text], parse_label(csv, fields[columns.label])});
    reviews.dropped_bytes += drop_invalid_utf8(reviews.samples.back().text);
  }
  require(!reviews.samples.empty(), [&] { return path + ": no reviews follow the header"; });
  return reviews;
}

std::vector<int64_t> balanced_order(std::span<const int> labels, int64_t count) {
  std::vector<int64_t> positive, negative;
  for (size_t i = 0; i < labels.size(); ++i) (labels[i] == 1 ? positive : negative).push_back(static_cast<int64_t>(i));
  const size_t most = std::min(labels.size(), static_cast<size_t>(std::max<int64_t>(count, 0)));
  std::vector<int64_t> order;
  for (size_t i = 0; order.size() < most; ++i) {
    if (i < positive.size()) order.push_back(positive[i]);
    if (i < negative.size() && order.size() < most) order.push_back(negative[i]);
  }
  return order;
}

std::vector<Review> take_balanced(std::vector<Review> samples, int64_t count) {
  std::vector<int> labels;
  for (const Review& sample : samples) labels.push_back(sample.label);
  std::vector<Review> taken;
  for (const int64_t i : balanced_order(labels, count)) taken.push_back(std::move(samples[static_cast<size_t>(i)]));
  return taken;
}

}  // namespace adjoin::data
