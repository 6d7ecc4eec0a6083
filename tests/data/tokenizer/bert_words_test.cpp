#include "adjoin/data/tokenizer/bert_words.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <utf8proc.h>

#include <random>
#include <string>
#include <vector>

#include "adjoin/base/utf8.hpp"
#include "adjoin/data/tokenizer/character_classes.hpp"
#include "adjoin/data/tokenizer/text_steps.hpp"

namespace adjoin::data {
namespace {

std::vector<std::string> bert_words_in(const std::string& text) {
  std::vector<std::string> words;
  for_each_bert_word(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

/// Decomposed and in canonical order by utf8proc, whose time is the square of a run of marks.
std::string decomposed_by_utf8proc(const std::string& text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  std::vector<int32_t> points(8 * text.size() + 8);
  const auto size = utf8proc_decompose(bytes, static_cast<utf8proc_ssize_t>(text.size()), points.data(),
                                       static_cast<utf8proc_ssize_t>(points.size()), UTF8PROC_DECOMPOSE);
  EXPECT_LE(size, std::ssize(points));
  std::string result;
  for (utf8proc_ssize_t i = 0; i < size; ++i)
    append_utf8(result, static_cast<char32_t>(points[static_cast<size_t>(i)]));
  return result;
}

// Marks that take space (Mc) stay in the word, and those of other classes than 0 change places: 302e, 302f, 1d165 to
// 1d172 and the viramas of 1b44 and its like. Among accents, letters that decompose, ideographs and punctuation.
std::string random_text(std::mt19937& random) {
  const std::u32string spacing = U"\u302e\u302f\U0001d165\U0001d16d\U0001d172\u1b44\u1baa\ua953\ua9c0\u1bf2";
  const std::u32string others =
      U"aB 1.\u00e9\u1e69\u1e0d\u0323\u0307\u0301\u0345\u034f\ud55c\uf900\u6f22\u212a\u2000\u0bcc\u0344";
  std::string text;
  for (int i = 0; i < 40; ++i) {
    const std::u32string& from = random() % 2 ? spacing : others;
    char32_t point = from[random() % from.size()];
    if (random() % 8 == 0) point = 0xa0 + random() % 0x3000;
    if ((traits_of(point) & kDropped) == 0) append_utf8(text, point);  // which is dropped before its neighbours meet
  }
  return text;
}

TEST(BertWords, orders_marks_as_utf8proc_does) {
  std::mt19937 random(7);
  int reordered = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string text = random_text(random), ordered = decomposed_by_utf8proc(text);
    reordered += ordered != text;
    ASSERT_EQ(bert_words_in(text), bert_words_in(ordered)) << ::testing::PrintToString(text);
  }
  EXPECT_GT(reordered, 10000);
}

TEST(BertWords, take_a_time_linear_in_a_run_of_marks) {
  std::string accents = "a", spacing = "a";
  for (int i = 0; i < 500'000; ++i) {  // of alternating classes, which to sort by exchanging neighbours takes minutes
    append_utf8(accents, i % 2 ? U'\u0323' : U'\u0301');
    append_utf8(spacing, i % 2 ? U'\u302e' : U'\U0001d165');
  }
  EXPECT_THAT(bert_words_in(accents), ::testing::ElementsAre("a"));
  const auto words = bert_words_in(spacing);
  ASSERT_EQ(words.size(), 1u);
  EXPECT_EQ(words[0].size(), spacing.size());
  EXPECT_EQ(words[0].find("\u302e"), words[0].rfind("\U0001d165") + 4);  // class 216 before class 224
}

}  // namespace
}  // namespace adjoin::data
