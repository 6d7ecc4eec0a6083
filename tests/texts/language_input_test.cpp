#include "adjoin/texts/language_input.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>
#include <string>

#include "adjoin/data/token_cache.hpp"
#include "adjoin/data/token_folder.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// A cache in which a version that separated paragraphs by empty lines alone has kept tokens of two other documents.
class EarlierCache : public ::testing::Test {
 protected:
  EarlierCache() { ::setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1); }
  ~EarlierCache() override {
    before_.empty() ? ::unsetenv("XDG_CACHE_HOME") : ::setenv("XDG_CACHE_HOME", before_.c_str(), 1);
  }

  /// The number of training documents that are found for a file.
  int64_t documents_found(const std::string& name, const std::string& content) {
    const fs::path file = folder_ / name;
    test::put(file, content);
    test::put(folder_ / "other.txt", "a\n\nb\n");
    const auto vocabulary = data::byte_vocabulary();
    const Json request = {{"documents", data::identity_of_files(file)},
                          {"test", Json()},
                          {"text_column", ""},
                          {"vocabulary", Json{{"hash", vocabulary->hash()}}}};
    const auto place = data::cache_place(request, ".documents");
    fs::create_directories(place->parent_path());
    data::write_token_folder(place->string(), data::Documents({.data = (folder_ / "other.txt").string()}), *vocabulary);
    Configuration c = configuration_of("gpt-tiny");
    c.data = file.string();
    c.vocab = "bytes";
    return read_language_input(c).train.counts.documents;
  }

 private:
  static std::string value_of(const char* name) { return std::getenv(name) == nullptr ? "" : std::getenv(name); }
  test::TemporaryFolder folder_;
  std::string before_ = value_of("XDG_CACHE_HOME");
};

TEST_F(EarlierCache, is_not_used_for_paragraphs_which_are_now_separated_by_white_space) {
  EXPECT_EQ(documents_found("text.txt", "a\n \nb\n\t\nc\n"), 2);
}

TEST_F(EarlierCache, is_used_for_rows_of_tables) {
  EXPECT_EQ(documents_found("rows.csv", "text\na\nb\nc\nd\n"), 1);
}

}  // namespace
}  // namespace adjoin::train
