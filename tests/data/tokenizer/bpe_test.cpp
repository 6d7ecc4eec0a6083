#include "adjoin/data/tokenizer/bpe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

namespace adjoin::data {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Pieces of the letters a to d, and of so many random merges of them.
BpeParts random_parts(unsigned seed, size_t merges) {
  BpeParts parts;
  parts.fallback.fill(BpeParts::kNone);
  std::vector<std::string> pieces{"a", "b", "c", "d"};
  std::mt19937 random(seed);
  while (parts.merges.size() < merges) {
    const size_t left = random() % pieces.size(), right = random() % pieces.size();
    const std::string joined = pieces[left] + pieces[right];
    if (joined.size() > 12 || std::find(pieces.begin(), pieces.end(), joined) != pieces.end()) continue;
    parts.merges.push_back(
        {static_cast<int32_t>(left), static_cast<int32_t>(right), static_cast<int32_t>(pieces.size())});
    pieces.push_back(joined);
  }
  for (size_t id = 0; id < pieces.size(); ++id) parts.pieces[pieces[id]] = static_cast<int32_t>(id);
  return parts;
}

/// By the definition: of all neighbours that join, those join whose merge is the earliest, at the left first.
std::vector<int64_t> by_definition(const BpeParts& parts, const std::string& word) {
  std::vector<int64_t> ids;
  for (const char c : word) ids.push_back(parts.pieces.at(std::string(1, c)));
  for (bool joined = true; joined;) {
    joined = false;
    for (const auto& merge : parts.merges) {
      for (size_t at = 0; !joined && at + 1 < ids.size(); ++at) {
        if (ids[at] != merge.left || ids[at + 1] != merge.right) continue;
        ids[at] = merge.joined;
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
        joined = true;
      }
      if (joined) break;
    }
  }
  return ids;
}

std::string random_word(std::mt19937& random, size_t length) {
  std::string word;
  while (word.size() < length) word += static_cast<char>('a' + random() % (1 + random() % 4));
  return word;
}

std::vector<int64_t> encoded(const Bpe& bpe, const std::string& word) {
  std::vector<int64_t> ids;
  bpe.encode(word, ids);
  return ids;
}

TEST(Bpe, joins_the_earliest_merges_first_in_words_of_any_length) {
  std::mt19937 random(1);
  for (unsigned seed = 0; seed < 20; ++seed) {
    const BpeParts parts = random_parts(seed, 60);
    const Bpe bpe(parts);
    for (const size_t length : {1, 2, 3, 5, 8, 22, 23, 40, 64, 65, 66, 100, 300})
      for (int i = 0; i < 5; ++i) {
        const std::string word = random_word(random, length);
        EXPECT_EQ(encoded(bpe, word), by_definition(parts, word)) << word;
      }
  }
}

TEST(Bpe, joins_a_word_of_a_million_letters) {
  const BpeParts parts = random_parts(3, 60);
  const Bpe bpe(parts);
  std::mt19937 random(5);
  std::string word, joined;
  while (word.size() < 1'000'000) word += random_word(random, 1000);
  std::vector<std::string> spelled(parts.pieces.size());
  for (const auto& [piece, id] : parts.pieces) spelled[static_cast<size_t>(id)] = piece;
  for (const int64_t id : encoded(bpe, word)) joined += spelled[static_cast<size_t>(id)];
  EXPECT_EQ(joined, word);
}

TEST(Bpe, keeps_words_of_different_tokenizers_apart) {
  std::mt19937 random(2);
  const BpeParts one = random_parts(10, 60), other = random_parts(11, 60);
  const Bpe a(one), b(other);
  for (int i = 0; i < 2000; ++i) {
    const std::string word = random_word(random, 1 + random() % 12);
    EXPECT_EQ(encoded(a, word), by_definition(one, word));
    EXPECT_EQ(encoded(b, word), by_definition(other, word));
  }
}

TEST(Bpe, is_shared_by_threads) {
  const BpeParts parts = random_parts(4, 60);
  const Bpe bpe(parts);
  const auto run = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 500; ++i) {
      const std::string word = random_word(random, 1 + random() % 80);
      EXPECT_EQ(encoded(bpe, word), by_definition(parts, word));
    }
  };
  std::thread a(run, 1), b(run, 2);
  a.join();
  b.join();
}

TEST(Bpe, takes_whole_words_where_it_is_told_to) {
  BpeParts parts = random_parts(1, 0);
  parts.pieces["abc"] = 9;
  EXPECT_THAT(encoded(Bpe(parts), "abc"), ElementsAre(0, 1, 2));
  parts.whole_words = true;
  EXPECT_THAT(encoded(Bpe(parts), "abc"), ElementsAre(9));
}

TEST(Bpe, writes_characters_that_are_no_piece_in_bytes_or_as_unknown) {
  BpeParts parts = random_parts(1, 0);
  parts.unit = BpeParts::Unit::character;
  EXPECT_THAT(encoded(Bpe(parts), "\xc3\xa9"), IsEmpty());
  parts.unknown = 7;
  EXPECT_THAT(encoded(Bpe(parts),
                      "a\xc3\xa9\xc3\xa9"
                      "b"),
              ElementsAre(0, 7, 7, 1));
  parts.fuse_unknown = true;
  EXPECT_THAT(encoded(Bpe(parts),
                      "a\xc3\xa9\xc3\xa9"
                      "b"),
              ElementsAre(0, 7, 1));
  parts.fallback[0xc3] = 20;
  EXPECT_THAT(encoded(Bpe(parts),
                      "a\xc3\xa9"
                      "b"),
              ElementsAre(0, 7, 1));
  parts.fallback[0xa9] = 21;
  EXPECT_THAT(encoded(Bpe(parts),
                      "a\xc3\xa9"
                      "b\xc3"),
              ElementsAre(0, 20, 21, 1, 20));
}

}  // namespace
}  // namespace adjoin::data
