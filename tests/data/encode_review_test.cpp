#include "adjoin/data/encode_review.hpp"

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

}  // namespace
}  // namespace adjoin::data
