#include "adjoin/data/token_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/data/data_files.hpp"

namespace adjoin::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string written(const TemporaryFolder& folder, int64_t words, std::string_view text = "about it") {
  const std::string path = folder.path("a.tokens");
  TokenFileWriter file(path, words);
  file.add(std::vector<int64_t>{2, 500, 3}, 1);
  file.add(std::vector<int64_t>{words - 1, 4}, 0);
  file.publish(text);
  return path;
}

size_t files_in(const TemporaryFolder& folder) {
  const std::filesystem::directory_iterator all(folder.path());
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

TEST(TokenFile, is_mapped_as_it_was_written) {
  const TemporaryFolder folder;
  for (const int64_t words : {int64_t{65536}, int64_t{1} << 31}) {
    const auto [tokens, text] = map_token_file(written(folder, words));
    EXPECT_EQ(text, "about it");
    EXPECT_EQ(tokens.size(), 2);
    EXPECT_THAT(tokens.ids(0), ElementsAre(2, 500, 3));
    EXPECT_THAT(tokens.ids(1), ElementsAre(words - 1, 4));
    EXPECT_EQ(tokens.label(0), 1);
  }
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(TokenFile, takes_a_sample_in_parts_and_gives_it_in_parts_again_and_again) {
  const TemporaryFolder folder;
  std::vector<int64_t> all(100'000);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i % 501);
  TokenFileWriter file(folder.path("a"), 600);
  file.append(std::span(all).first(70'000));
  file.append(std::span(all).subspan(70'000));
  file.end_sample(3);
  file.add(std::vector<int64_t>{7}, 4);
  file.publish("");
  const TokenStore tokens = map_token_file(folder.path("a")).tokens;
  EXPECT_EQ(tokens.length(0), 100'000);
  EXPECT_EQ(tokens.label(1), 4);
  for (int round = 0; round < 2; ++round)
    for (int64_t first = 0; first < 100'000; first += 20'000)
      EXPECT_EQ(tokens.ids(0, first, 20'000), std::vector(all.begin() + first, all.begin() + first + 20'000));
  EXPECT_EQ(tokens.ids(0), all);
  EXPECT_THAT(tokens.ids(1, 0, 1), ElementsAre(7));
}

TEST(TokenFile, may_hold_no_samples) {
  const TemporaryFolder folder;
  TokenFileWriter(folder.path("none"), 10).publish("");
  EXPECT_EQ(map_token_file(folder.path("none")).tokens.size(), 0);
}

TEST(TokenFile, that_was_not_published_leaves_nothing) {
  const TemporaryFolder folder;
  { TokenFileWriter(folder.path("a"), 10).add(std::vector<int64_t>{1}, 0); }
  EXPECT_EQ(files_in(folder), 0u);
}

TEST(TokenFile, is_whole_when_many_write_it_at_once) {
  const TemporaryFolder folder;
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) writers.emplace_back([&] { written(folder, 600); });
  for (std::thread& writer : writers) writer.join();
  EXPECT_THAT(map_token_file(folder.path("a.tokens")).tokens.ids(1), ElementsAre(599, 4));
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(TokenFile, is_refused_where_any_byte_but_those_of_ids_and_labels_was_changed) {
  const TemporaryFolder folder;
  const std::string whole = test::contents_of(written(folder, 600));
  const size_t ids = 64, begins = 80, labels = begins + 3 * 8, text = labels + 2 * 4;
  ASSERT_EQ(whole.size(), text + 8);
  for (size_t at = 0; at < whole.size(); ++at) {
    if ((at >= ids && at < begins) || (at >= labels && at < text)) continue;
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x20);
    EXPECT_THROW(map_token_file(folder.write("b", changed)), InvalidArgument) << at;
  }
}

TEST(TokenFile, is_refused_where_it_is_cut_short_or_grown_or_something_else) {
  const TemporaryFolder folder;
  const std::string whole = test::contents_of(written(folder, 600));
  for (const size_t kept : {size_t{119}, size_t{100}, size_t{64}})
    EXPECT_THAT(refusal([&] { map_token_file(folder.write("b", whole.substr(0, kept))); }),
                HasSubstr("b: the token file has " + std::to_string(kept) + " bytes, its header says 120"));
  EXPECT_THAT(refusal([&] { map_token_file(folder.write("b", whole + "x")); }), HasSubstr("has 121 bytes"));
  EXPECT_THAT(refusal([&] { map_token_file(folder.write("b", "")); }), HasSubstr("too short for a token file"));
  EXPECT_THAT(refusal([&] { map_token_file(folder.path("c")); }), HasSubstr("c: cannot be opened: No such file"));
  EXPECT_THAT(refusal([&] { map_token_file(folder.path()); }), HasSubstr("too short for a token file"));
  std::string later = whole;
  later[8] = 9;
  EXPECT_THAT(refusal([&] { map_token_file(folder.write("b", later)); }), HasSubstr("version 9, expected 1"));
}

TEST(TokenFile, names_the_file_that_the_disk_refuses) {
  const TemporaryFolder folder;
  EXPECT_THAT(test::message_of<IoError>([&] { TokenFileWriter(folder.path("none/a"), 10); }),
              HasSubstr("none/a: cannot be opened for writing: No such file"));
}

}  // namespace
}  // namespace adjoin::data
