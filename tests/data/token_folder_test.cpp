#include "adjoin/data/token_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/data/data_files.hpp"

namespace adjoin::data {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TokenFolders : public ::testing::Test {
 protected:
  Documents documents(const std::string& text = "ab\n\nc\n") {
    return Documents({.data = folder_.write("source/a.txt", text)});
  }
  std::string place() const { return folder_.path("out/tokens"); }
  size_t files_beside() const {
    const fs::directory_iterator all(folder_.path("out"));
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }
  TemporaryFolder folder_;
};

TEST_F(TokenFolders, are_opened_as_they_were_written) {
  const FolderCounts counts = write_token_folder(place() + "/", documents(), *byte_vocabulary());
  EXPECT_EQ(counts.train.tokens, 3);
  EXPECT_EQ(counts.test.documents, 1);
  ASSERT_TRUE(is_token_folder(place()));
  const TokenFolder opened = open_token_folder(place());
  EXPECT_EQ(opened.vocabulary->size(), 257);
  EXPECT_THAT(opened.train.tokens.ids(0), ElementsAre(97, 98, 256));
  EXPECT_THAT(opened.test.tokens.ids(0), ElementsAre(99, 256));
  EXPECT_EQ(files_beside(), 1u);
  EXPECT_EQ(fs::status(place() + "/train.tokens").permissions(), fs::status(place() + "/vocab.model").permissions());
}

TEST_F(TokenFolders, take_the_place_of_nothing_but_an_empty_folder) {
  fs::create_directories(place());
  write_token_folder(place(), documents(), *byte_vocabulary());
  const Documents others = documents("de\n\nf\n");
  EXPECT_THAT(refusal([&] { write_token_folder(place(), others, *byte_vocabulary()); }),
              HasSubstr("exists and is not an empty folder; choose another"));
  EXPECT_THAT(open_token_folder(place()).train.tokens.ids(0), ElementsAre(97, 98, 256));
  EXPECT_THAT(refusal([&] { require_free_place(folder_.path("source/a.txt")); }), HasSubstr("is not an empty folder"));
  EXPECT_THAT(refusal([&] { require_free_place(""); }), HasSubstr("--out"));
}

TEST_F(TokenFolders, are_whole_where_many_write_one_at_once) {
  const Documents source = documents();
  std::atomic<int> written = 0;
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i)
    writers.emplace_back([&] {
      try {
        write_token_folder(place(), source, *byte_vocabulary());
        ++written;
      } catch (const InvalidArgument&) {  // another was quicker
      }
    });
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(written, 1);
  EXPECT_THAT(open_token_folder(place()).test.tokens.ids(0), ElementsAre(99, 256));
  EXPECT_EQ(files_beside(), 1u);
}

TEST_F(TokenFolders, leave_nothing_where_a_part_cannot_be_read) {
  folder_.write("source/train.csv", "text\na\nb\n");
  folder_.write("source/test.csv", "text\n\"cut");
  const Documents cut({.data = folder_.path("source")});
  EXPECT_THAT(refusal([&] { write_token_folder(place(), cut, *byte_vocabulary()); }), HasSubstr("test.csv:2: a quote"));
  EXPECT_EQ(files_beside(), 0u);
}

TEST_F(TokenFolders, are_refused_where_a_file_is_missing_or_of_another_vocabulary) {
  EXPECT_FALSE(is_token_folder(place()));
  write_token_folder(place(), documents(), *byte_vocabulary());
  learn_subwords(documents(), {.size = 300})->save(place() + "/vocab.model");
  EXPECT_THAT(refusal([&] { open_token_folder(place()); }),
              HasSubstr("train.tokens: holds tokens of another vocabulary"));
  byte_vocabulary()->save(place() + "/vocab.model");
  fs::remove(place() + "/test.tokens");
  EXPECT_THAT(refusal([&] { open_token_folder(place()); }), HasSubstr("test.tokens: cannot be opened"));
}

}  // namespace
}  // namespace adjoin::data
