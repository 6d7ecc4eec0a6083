#include "adjoin/data/padding.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/data/data_files.hpp"

namespace adjoin::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const WordPiece kWords({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c"});

TEST(EncodeReview, stands_between_class_and_separator) {
  EXPECT_THAT(encode_review(kWords, "a b c", 16), ElementsAre(2, 4, 5, 6, 3));
  EXPECT_THAT(encode_review(kWords, "", 16), ElementsAre(2, 3));
}

TEST(EncodeReview, is_cut_to_the_maximum_with_its_separator) {
  EXPECT_THAT(encode_review(kWords, "a b c", 5), ElementsAre(2, 4, 5, 6, 3));
  EXPECT_THAT(encode_review(kWords, "a b c", 4), ElementsAre(2, 4, 5, 3));
  EXPECT_THAT(encode_review(kWords, "a b c", 2), ElementsAre(2, 3));
  EXPECT_THAT(refusal([] { encode_review(kWords, "a", 1); }), HasSubstr("got a maximum of 1"));
}

TEST(Pad, fills_up_to_the_longest_sample) {
  const std::vector<std::vector<int64_t>> samples = {{2, 3}, {2, 4, 5, 3}, {2, 6, 3}};
  const PaddedBatch batch = pad(samples, 16, 0);
  EXPECT_EQ(batch.rows, 3);
  EXPECT_EQ(batch.longest, 4);
  EXPECT_THAT(batch.ids, ElementsAre(2, 3, 0, 0, 2, 4, 5, 3, 2, 6, 3, 0));
  EXPECT_THAT(batch.lengths, ElementsAre(2, 4, 3));
}

TEST(Pad, makes_an_empty_block_of_no_samples) {
  const PaddedBatch batch = pad({}, 16, 0);
  EXPECT_EQ(batch.rows, 0);
  EXPECT_EQ(batch.longest, 0);
  EXPECT_TRUE(batch.ids.empty());
}

TEST(Pad, refuses_a_sample_beyond_the_maximum) {
  const std::vector<std::vector<int64_t>> samples = {{2, 4, 3}};
  EXPECT_THAT(refusal([&] { pad(samples, 2, 0); }), HasSubstr("a sample has 3 tokens, more than the maximum of 2"));
}

}  // namespace
}  // namespace adjoin::data
