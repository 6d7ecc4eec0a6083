#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "adjoin/base/utf8.hpp"
#include "adjoin/data/tokenizer/text_vocabulary.hpp"
#include "adjoin/data/tokenizer/tokenizer_folder.hpp"
#include "adjoin/data/tokenizer/wordpiece.hpp"
#include "tests/data/tokenizer/records.hpp"
#include "tests/support/scale.hpp"

namespace adjoin::data {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Encoded {
  std::vector<int64_t> alone, whole;             // without and with the tokens around a text
  std::optional<std::vector<int64_t>> document;  // without special tokens
};

/// The ids of texts in the tokenizer of a folder.
std::vector<Encoded> encoded(const std::string& folder, const std::vector<std::string>& texts) {
  std::vector<Encoded> all;
  if (is_classifiers(read_tokenizer(folder))) {
    const WordPiece words = WordPiece::load(folder);
    for (const std::string& text : texts)
      all.push_back({words.encode(text), words.encode_review(text, 1 << 20), std::nullopt});
    return all;
  }
  const auto vocabulary = load_text_vocabulary(folder);
  for (const std::string& text : texts) {
    Encoded& its = all.emplace_back();
    vocabulary->encode_with_special_tokens(text, its.alone);
    its.whole = vocabulary->encode_prompt(text);
    its.document = vocabulary->encode(text);
  }
  return all;
}

// A folder of the seed N is drawn alone by: tests/tools/tokenizer_folders_oracle.py OUT N 1
TEST(DrawnTokenizerFolders, give_the_ids_of_transformers_or_are_refused) {
  const int count = 100 * test::scale();
  const TemporaryFolder out;
  run_oracle("tokenizer_folders_oracle.py", "'" + out.path() + "' 0 " + std::to_string(count), out);
  const std::vector<std::string> texts = records(out.path("texts"), 1);
  int equal = 0, refused = 0;
  for (int seed = 0; seed < count; ++seed) {
    const std::string folder = out.path(std::to_string(seed));
    std::vector<Encoded> ours;
    try {
      ours = encoded(folder, texts);
    } catch (const InvalidArgument& error) {
      ++refused;
      EXPECT_THAT(error.what(), StartsWith(folder));
      EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
      continue;
    }
    if (!std::ifstream(folder + ".ids").is_open()) continue;  // transformers cannot read it
    ++equal;
    const std::vector<std::string> theirs = records(folder + ".ids", 2);
    const size_t size = texts.size();
    ASSERT_EQ(theirs.size(), 3 * size);
    for (size_t i = 0; i < size; ++i) {
      const std::string where = "seed " + std::to_string(seed) + ": " + printable(texts[i]);
      EXPECT_EQ(ours[i].alone, ids_of(theirs[i])) << where;
      EXPECT_EQ(ours[i].whole, ids_of(theirs[size + i])) << where;
      if (ours[i].document) {
        EXPECT_EQ(*ours[i].document, ids_of(theirs[2 * size + i])) << where << ", as a document";
      }
    }
  }
  EXPECT_GT(equal, 0.7 * count) << refused << " are refused";
}

}  // namespace
}  // namespace adjoin::data
