#include "adjoin/data/token_folder.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin::data {
namespace {

namespace fs = std::filesystem;

const char* tokens_of(Part part) {
  return part == Part::train ? "train.tokens" : "test.tokens";
}

[[noreturn]] void refuse_place(const fs::path& place) {
  throw InvalidArgument("--out " + place.string() + ": exists and is not an empty folder; choose another");
}

/// A folder that is filled beside its place, under a name that no other process on any host uses.
class FolderInTheMaking {
 public:
  explicit FolderInTheMaking(const fs::path& place)
      : place_(place), temporary_(place.string() + ".new-" + std::to_string(std::random_device()())) {
    std::error_code error;
    if (place_.has_parent_path()) fs::create_directories(place_.parent_path(), error);
    if (!fs::create_directory(temporary_, error))
      throw IoError(place_.string() + ": the folder cannot be created: " + error.message());
  }
  ~FolderInTheMaking() {
    std::error_code ignored;
    fs::remove_all(temporary_, ignored);
  }
  FolderInTheMaking(const FolderInTheMaking&) = delete;
  FolderInTheMaking& operator=(const FolderInTheMaking&) = delete;

  fs::path operator/(const char* name) const { return temporary_ / name; }

  void publish() {
    if (std::rename(temporary_.c_str(), place_.c_str()) == 0) return;
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR) refuse_place(place_);  // another process was faster
    throw IoError(place_.string() + ": cannot be moved into place: " + std::strerror(errno));
  }

 private:
  fs::path place_, temporary_;
};

/// Without a '/' at the end, so that a name can be appended.
fs::path place_of(const std::string& path) {
  const fs::path place(path);
  return place.has_filename() ? place : place.parent_path();
}

}  // namespace

bool is_token_folder(const std::string& path) {
  return fs::is_regular_file(fs::path(path) / kVocabularyFile) &&
         fs::is_regular_file(file_of_tokens(path, Part::train));
}

fs::path file_of_tokens(const fs::path& folder, Part part) {
  return folder / tokens_of(part);
}

TokenFolder open_token_folder(const std::string& path) {
  const fs::path folder(path);
  TokenFolder opened{.vocabulary = load_text_vocabulary((folder / kVocabularyFile).string()), .train = {}, .test = {}};
  opened.train = map_document_tokens(file_of_tokens(folder, Part::train), *opened.vocabulary);
  opened.test = map_document_tokens(file_of_tokens(folder, Part::test), *opened.vocabulary);
  return opened;
}

void require_free_place(const std::string& path) {
  const fs::path place = place_of(path);
  std::error_code error;
  const fs::file_status there = fs::symlink_status(place, error);
  const bool is_free = !place.empty() && (!fs::exists(there) || (fs::is_directory(there) && fs::is_empty(place)));
  if (!is_free) refuse_place(path);
}

FolderCounts write_token_folder(const std::string& path, const Documents& documents, const TextVocabulary& vocabulary) {
  require_free_place(path);
  const fs::path place = place_of(path);
  FolderInTheMaking folder(place);
  vocabulary.save((folder / kVocabularyFile).string());
  FolderCounts counts;
  for (auto [part, its] : {std::pair(Part::train, &counts.train), {Part::test, &counts.test}}) {
    *its = write_document_tokens(folder / tokens_of(part), *documents.open(part), vocabulary);
    fs::permissions(folder / tokens_of(part),
                    fs::status(folder / kVocabularyFile).permissions());  // not only its writer's
  }
  folder.publish();
  return counts;
}

}  // namespace adjoin::data
