#include "adjoin/data/vocabulary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "adjoin/data/sample_corpus.hpp"
#include "adjoin/data/tokenizer/wordpiece.hpp"
#include "tests/data/data_files.hpp"
#include "tests/support/samples.hpp"
#include "tests/support/sanitized.hpp"

namespace adjoin::data {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

WordCounter repeated(const std::string& text, int times) {
  WordCounter counter;
  for (int i = 0; i < times; ++i) counter.add(text);
  return counter;
}

std::vector<Sample> some_of(SampleReader& reader) {
  std::vector<Sample> some;
  int64_t place = 0;
  for (Sample sample; reader.next(sample);)
    if (place++ % (adjoin::testing::kIsSanitized ? 24 : 6) == 0) some.push_back(sample);
  return some;
}

// "ab" stands 4 times, "##bc" and "##cd" 3 times each: the pairs join in that order, "abc" before "##cd" since it is
// made of a newer piece only where counts are equal, as Sennrich et al. join.
TEST(LearnVocabulary, joins_the_most_frequent_neighbours_first) {
  const auto pieces = learn_vocabulary(repeated("ab ab abcd abcd abcd xy", 2), {.size = 100, .min_pair_count = 6});
  const std::vector<std::string> learned(pieces.begin() + 11, pieces.end());
  EXPECT_THAT(learned, ElementsAre("ab", "##cd", "abcd"));
}

TEST(LearnVocabulary, begins_with_special_tokens_and_characters_by_frequency) {
  const auto pieces = learn_vocabulary(repeated("ba ba a", 2), {.size = 100, .min_pair_count = 100});
  EXPECT_THAT(pieces, ElementsAre("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##a", "b", "a"));
}

TEST(LearnVocabulary, leaves_out_characters_below_the_count) {
  WordCounter words = repeated("ab", 3);
  words.add("a\u6f22");
  EXPECT_THAT(learn_vocabulary(words, {.min_character_count = 2}), Not(Contains("\u6f22")));
  EXPECT_THAT(learn_vocabulary(words, {.min_character_count = 1}), Contains("\u6f22"));
}

TEST(LearnVocabulary, normalizes_as_the_tokenizer_does) {
  EXPECT_THAT(learn_vocabulary(repeated("Caf\u00c9!", 2)), Contains("cafe"));
}

TEST(LearnVocabulary, makes_whole_words_of_a_small_corpus_and_leaves_nothing_unknown) {
  const WordPiece tokenizer(learn_vocabulary(counted(all_of(*open_sample_corpus(Part::train)))));
  EXPECT_LT(tokenizer.size(), 8000);  // nothing is left to join
  EXPECT_EQ(tokenizer.encode("Overall, the unforgettable plot").size(),
            tokenizer.encode("overall , the").size() + tokenizer.encode("unforgettable").size() + 1);
  for (const Sample& sample : all_of(*open_sample_corpus(Part::test)))
    EXPECT_THAT(tokenizer.encode(sample.text), Not(Contains(tokenizer.unknown_id()))) << sample.text;
}

TEST(LearnVocabulary, repeats_and_has_no_piece_twice) {
  const WordCounter words = counted(all_of(*open_sample_corpus(Part::test)));
  const auto pieces = learn_vocabulary(words, {.size = 300});
  EXPECT_EQ(pieces.size(), 300u);
  EXPECT_EQ(learn_vocabulary(words, {.size = 300}), pieces);
  EXPECT_EQ(std::set<std::string>(pieces.begin(), pieces.end()).size(), pieces.size());
}

TEST(LearnVocabulary, learns_nothing_from_words_that_are_unknown_in_any_case) {
  const std::string longest = "q" + std::string(99, 'a');
  EXPECT_THAT(learn_vocabulary(repeated(longest, 2)), Contains(longest));
  EXPECT_EQ(learn_vocabulary(repeated("good film " + longest + "a", 2)), learn_vocabulary(repeated("good film", 2)));
}

// Joining pieces in one word of a megabyte would take hours.
TEST(LearnVocabulary, takes_a_time_linear_in_a_text_without_spaces) {
  std::mt19937 random(5);
  std::string text;
  for (int i = 0; i < 1'000'000; ++i) text += static_cast<char>('a' + random() % 26);
  EXPECT_THAT(learn_vocabulary(repeated(text + " good", 2)), Contains("good"));
}

TEST(LearnVocabulary, refuses_a_size_that_holds_next_to_nothing) {
  EXPECT_THAT(refusal([] { learn_vocabulary(repeated("a", 2), {.size = 10}); }), HasSubstr("at least 32, got 10"));
}

TEST(LearnVocabulary, knows_nearly_every_word_of_real_reviews) {
  const std::string imdb = real_data("imdb");
  const auto train = some_of(*open_samples(imdb, Part::train));
  const WordPiece tokenizer(learn_vocabulary(counted(train), {.size = 8000}));
  ASSERT_EQ(tokenizer.size(), 8000);
  int64_t unknown = 0, all = 0;
  for (const Sample& sample : some_of(*open_samples(imdb, Part::test))) {
    const auto ids = tokenizer.encode(sample.text);
    all += std::ssize(ids);
    unknown += std::count(ids.begin(), ids.end(), tokenizer.unknown_id());
  }
  EXPECT_LT(unknown * 10000, all);  // one in ten thousand
}

}  // namespace
}  // namespace adjoin::data
