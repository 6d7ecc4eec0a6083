#include "adjoin/data/tokenizer/subword_vocabulary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "adjoin/data/sample_corpus.hpp"
#include "tests/data/data_files.hpp"

namespace adjoin::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::shared_ptr<const TextVocabulary> learned_from(std::vector<std::string> texts, const SubwordOptions& options = {}) {
  const auto next = [&, at = size_t{0}](std::string& text) mutable {
    if (at == texts.size()) return false;
    text = texts[at++];
    return true;
  };
  return learn_subwords(next, options);
}

std::shared_ptr<const TextVocabulary> of_the_sample(int64_t size = 1000) {
  const auto corpus = open_sample_corpus(Part::train);
  Sample sample;
  const auto next = [&](std::string& text) { return corpus->next(sample) && (text = sample.text, true); };
  return learn_subwords(next, {.size = size, .text_bytes = 100'000});
}

const TextVocabulary& sample_vocabulary() {
  static const auto vocabulary = of_the_sample();
  return *vocabulary;
}

TEST(SubwordVocabulary, gives_back_every_text) {
  const std::vector<std::string> texts = {
      "",
      " ",
      "two  spaces,   three; and one at the end ",
      "lines\n\n\r\n\ttabs\t",
      "caf\xc3\xa9, \xef\xac\x81, \xe4\xb8\xad\xe6\x96\x87, \xf0\x9f\x98\x80, e\xcc\x81",  // none of which was learned
      "</s> <unk> <0x41> <s>",
      "\xe2\x96\x81 is the library's own sign for a space, \xe2\x96\x85 that for what it does not know, \xe2\x81\x87",
      std::string("\0 and \x01\x7f", 8),
  };
  for (const std::string& text : texts) EXPECT_EQ(sample_vocabulary().decode(sample_vocabulary().encode(text)), text);
}

TEST(SubwordVocabulary, gives_back_what_is_not_utf8) {
  std::string bytes;
  for (int i = 0; i < 20'000; ++i) bytes += static_cast<char>(i * i * 31 >> (i % 7));
  for (const std::string& text :
       {bytes, std::string("cut short: \xe2\x96"), std::string("\xc0\x80 \xed\xa0\x80 good film")})
    EXPECT_EQ(sample_vocabulary().decode(sample_vocabulary().encode(text)), text);
}

TEST(SubwordVocabulary, writes_words_in_fewer_ids_than_bytes) {
  const std::string text = "Overall, the plot is good. In the end the film is great.";
  EXPECT_LT(sample_vocabulary().encode(text).size(), text.size() / 2);
}

TEST(SubwordVocabulary, encodes_long_texts_as_it_does_their_words) {
  std::string text;
  std::vector<int64_t> expected;
  for (int i = 0; i < 20'000; ++i) {
    text += " overall";
    sample_vocabulary().encode(" overall", expected);
  }
  EXPECT_EQ(sample_vocabulary().encode(text), expected);
}

TEST(SubwordVocabulary, has_an_end_that_no_text_has) {
  const int64_t end = sample_vocabulary().end_of_document();
  EXPECT_EQ(sample_vocabulary().bytes_of(end), "");
  const auto ids = sample_vocabulary().encode("</s>");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 0);
}

TEST(SubwordVocabulary, is_loaded_as_it_was_saved) {
  const TemporaryFolder folder;
  sample_vocabulary().save(folder.path("a"));
  const auto loaded = load_text_vocabulary(folder.path("a"));
  EXPECT_EQ(loaded->hash(), sample_vocabulary().hash());
  EXPECT_EQ(loaded->size(), sample_vocabulary().size());
  const std::string text = "An unforgettable film,\nfor everybody!";
  EXPECT_EQ(loaded->encode(text), sample_vocabulary().encode(text));
}

TEST(SubwordVocabulary, refuses_a_file_that_was_cut_short) {
  const std::string& whole = sample_vocabulary().content();
  EXPECT_THAT(refusal([&] { subword_vocabulary(whole.substr(0, whole.size() / 2), "a"); }), HasSubstr("a: "));
}

TEST(LearnSubwords, gives_the_same_pieces_for_the_same_texts_without_a_word) {
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  const auto again = of_the_sample();
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(again->content(), sample_vocabulary().content());
  EXPECT_NE(of_the_sample(500)->hash(), again->hash());
}

TEST(LearnSubwords, keeps_to_its_size_and_takes_less_where_nothing_is_left_to_join) {
  EXPECT_EQ(of_the_sample(500)->size(), 500);
  const auto few = learned_from({"a rose is a rose is a rose"});
  EXPECT_GT(few->size(), 258);
  EXPECT_LT(few->size(), 300);
  EXPECT_EQ(few->decode(few->encode("a rose by any name")), "a rose by any name");
}

TEST(LearnSubwords, takes_texts_as_they_are) {
  for (const std::string& text :
       {std::string(30'000, 'x'), std::string("a\tb\xff\xfe\n\nc"), std::string("\xe2\x96\x81 a b c")}) {
    const auto vocabulary = learned_from({text, "words of it, words of it"});
    EXPECT_EQ(vocabulary->decode(vocabulary->encode(text)), text);
  }
}

TEST(LearnSubwords, refuses_what_cannot_be_learned_in_one_line) {
  const auto one_line = Not(HasSubstr("\n"));
  EXPECT_THAT(refusal([] { learned_from({}); }), AllOf(HasSubstr("no text to learn a vocabulary from"), one_line));
  EXPECT_THAT(refusal([] { learned_from({"", "\xff"}); }), AllOf(HasSubstr("no text to learn"), one_line));
  EXPECT_THAT(refusal([] { learned_from({"some words"}, {.size = 258}); }),
              AllOf(HasSubstr("expected a vocabulary of more than 258 subwords, got a size of 258"), one_line));
  EXPECT_THAT(
      refusal([] { learned_from({"the quick brown fox jumps over the lazy dog"}, {.size = 260}); }),
      AllOf(HasSubstr("a vocabulary of 260 pieces is too small for all bytes and the texts' characters"), one_line));
}

}  // namespace
}  // namespace adjoin::data
