#include "adjoin/data/samples.hpp"

#include <algorithm>
#include <string_view>

#include "adjoin/base/error.hpp"
#include "adjoin/data/sample_formats.hpp"

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

}  // namespace adjoin::data
