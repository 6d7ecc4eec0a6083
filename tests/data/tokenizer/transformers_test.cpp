#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/base/utf8.hpp"
#include "adjoin/data/tokenizer/character_classes.hpp"
#include "adjoin/data/tokenizer/nfc.hpp"
#include "adjoin/data/tokenizer/text_steps.hpp"
#include "adjoin/data/tokenizer/text_vocabulary.hpp"
#include "adjoin/data/tokenizer/tokenizer_folder.hpp"
#include "adjoin/data/tokenizer/wordpiece.hpp"
#include "tests/data/data_files.hpp"
#include "tests/data/tokenizer/records.hpp"
#include "tests/support/scale.hpp"

namespace adjoin::data {
namespace {

/// As the oracle has it: ten times as many texts of each kind in `make check-deep`.
const auto kScale = static_cast<size_t>(test::scale());
const size_t kRandomTexts = 1'000 * kScale, kReviews = 1'000 * kScale, kFewReviews = 100 * kScale;

/// What the oracle makes in its folder, made once.
class Oracle {
 public:
  Oracle() {
    run_oracle("tokenizers_oracle.py", "'" + real_data("imdb/train.csv.gz") + "' '" + folder_.path() + "'", folder_);
    texts_ = records(path("texts"), 1);
  }

  std::string path(const std::string& name) const { return folder_.path(name); }

  /// Compares the ids of the first texts with those of a file.
  void compare(const std::string& name, size_t texts,
               const std::function<std::vector<int64_t>(const std::string&)>& encode) const {
    const std::vector<std::string> expected = records(path(name), 2);
    ASSERT_EQ(expected.size(), texts) << name;
    size_t wrong = 0;
    for (size_t i = 0; i < texts; ++i) {
      const std::vector<int64_t> ids = encode(texts_[i]);
      if (ids == ids_of(expected[i]) || ++wrong > 3) continue;
      ADD_FAILURE() << name << ", text " << i << " has other ids: " << printable(texts_[i].substr(0, 500));
    }
    EXPECT_EQ(wrong, 0u) << name;
  }

 private:
  TemporaryFolder folder_;
  std::vector<std::string> texts_;
};

void compare_classifiers(const Oracle& oracle) {
  const std::map<std::string, size_t> kinds{{"wordpiece_uncased", kReviews},
                                            {"wordpiece_cased", kReviews},
                                            {"wordpiece_accents", kFewReviews},
                                            {"wordpiece_cased_stripped", kFewReviews},
                                            {"wordpiece_files", kFewReviews}};
  for (const auto& [kind, reviews] : kinds) {
    const WordPiece tokenizer = WordPiece::load(oracle.path(kind));
    const auto whole = [&](const std::string& text) { return tokenizer.encode_review(text, 1 << 30); };
    oracle.compare(kind + ".prompts", kRandomTexts + reviews, whole);
  }
}

void compare_decoders(const Oracle& oracle) {
  const std::map<std::string, size_t> kinds{{"gpt2", kReviews},
                                            {"gpt2_prefix", kFewReviews},
                                            {"llama3", kReviews},
                                            {"qwen2", kReviews},
                                            {"digits", kReviews},
                                            {"digit_runs", kFewReviews},
                                            {"llama", kReviews},
                                            {"llama_legacy", kFewReviews},
                                            {"pairs_gpt2", kFewReviews},
                                            {"pairs_llama3", kFewReviews},
                                            {"pairs_qwen2", kFewReviews},
                                            {"pairs_digits", kFewReviews},
                                            {"pairs_digit_runs", kFewReviews},
                                            {"gpt2_files", kFewReviews},
                                            {"qwen2_files", kFewReviews},
                                            {"llama_files_True", kFewReviews},
                                            {"llama_files_False", kFewReviews}};
  for (const auto& [kind, reviews] : kinds) {
    const auto vocabulary = load_text_vocabulary(oracle.path(kind));
    oracle.compare(kind + ".prompts", kRandomTexts + reviews,
                   [&](const std::string& text) { return vocabulary->encode_prompt(text); });
    oracle.compare(kind + ".documents", kRandomTexts,
                   [&](const std::string& text) { return vocabulary->encode(text); });
  }
}

void compare_classes(const Oracle& oracle) {
  const std::string classes = bytes_of_file(oracle.path("classes")), numeric = bytes_of_file(oracle.path("numeric")),
                    words = bytes_of_file(oracle.path("word_characters"));
  constexpr char32_t kEnd = 0x110000;
  ASSERT_EQ(classes.size(), kEnd);
  ASSERT_EQ(numeric.size(), kEnd);
  ASSERT_EQ(words.size(), kEnd);
  size_t wrong = 0;
  for (char32_t point = 0; point < kEnd; ++point) {
    const bool is_right = static_cast<int>(class_of(point)) == classes[point] &&
                          is_numeric(point) == (numeric[point] != 0) && is_word_character(point) == (words[point] != 0);
    if (!is_right && ++wrong < 4)
      ADD_FAILURE() << "code point " << static_cast<uint32_t>(point) << " is of another class";
  }
  EXPECT_EQ(wrong, 0u);
}

/// Compares what becomes of texts with what the oracle wrote beside them.
void compare_texts(const Oracle& oracle, const std::string& name,
                   const std::function<std::string(const std::string&)>& changed) {
  const std::vector<std::string> pairs = records(oracle.path(name), 1);
  ASSERT_GT(pairs.size(), 20u) << name;
  size_t wrong = 0;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::string ours = changed(pairs[i]);
    if (ours == pairs[i + 1] || ++wrong > 3) continue;
    const auto [at, expected] = std::mismatch(ours.begin(), ours.end(), pairs[i + 1].begin(), pairs[i + 1].end());
    ADD_FAILURE() << name << ": text " << i << " differs at "
                  << printable(std::string(expected, std::min(expected + 30, pairs[i + 1].cend())));
  }
  EXPECT_EQ(wrong, 0u) << name;
}

void compare_words(const Oracle& oracle) {
  const std::map<std::string, BertWordOptions> options{
      {"words.111", {}},
      {"words.001", {.lower_case = false, .strip_accents = false}},
      {"words.100", {.strip_accents = false, .sets_ideographs_apart = false}},
      {"words.010", {.lower_case = false, .sets_ideographs_apart = false}}};
  for (const auto& [name, its] : options)
    compare_texts(oracle, name, [&](const std::string& text) {
      std::string words;
      for_each_bert_word(
          text, [&](std::string_view word) { words.append(word) += '\n'; }, its);
      return words;
    });
}

/// Compares what older files become with what transformers makes of them.
void compare_older_files(const Oracle& oracle) {
  for (const std::string kind :
       {"gpt2_files", "qwen2_files", "wordpiece_files", "llama_files_True", "llama_files_False"}) {
    const auto ours = nlohmann::json::parse(read_tokenizer(oracle.path(kind)));
    const auto theirs = nlohmann::json::parse(bytes_of_file(oracle.path(kind + ".json")));
    EXPECT_EQ(ours["model"]["vocab"], theirs["model"]["vocab"]) << kind;
    if (kind != "wordpiece_files") {
      EXPECT_EQ(ours["normalizer"], theirs["normalizer"]) << kind;
    }
    EXPECT_EQ(ours["pre_tokenizer"], theirs["pre_tokenizer"]) << kind;
    EXPECT_EQ(ours["decoder"], theirs["decoder"]) << kind;
    if (kind.starts_with("llama")) {
      EXPECT_TRUE(ours["model"]["merges"] == theirs["model"]["merges"]) << kind;
    }
  }
}

// One test, as it waits for one Python process, which makes all of it.
TEST(TransformersTokenizers, give_the_same_ids) {
  const Oracle oracle;
  compare_classes(oracle);
  compare_texts(oracle, "nfc", [](const std::string& text) { return nfc(text); });
  compare_words(oracle);
  compare_classifiers(oracle);
  compare_decoders(oracle);
  compare_older_files(oracle);
}

}  // namespace
}  // namespace adjoin::data
