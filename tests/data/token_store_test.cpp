#include "adjoin/data/token_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace adjoin::data {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TokenStore three_samples(int64_t words) {
  TokenStoreBuilder builder(words);
  builder.add(std::vector<int64_t>{2, 65535, 3}, 1);
  builder.add(std::vector<int64_t>{}, 0);
  builder.add(std::vector<int64_t>{words - 1}, 7);
  return builder.finish();
}

TEST(TokenStore, gives_back_what_was_put_in) {
  for (const int64_t words : {int64_t{65536}, int64_t{65537}}) {
    const TokenStore store = three_samples(words);
    EXPECT_EQ(store.size(), 3);
    EXPECT_THAT(store.ids(0), ElementsAre(2, 65535, 3));
    EXPECT_THAT(store.ids(1), IsEmpty());
    EXPECT_THAT(store.ids(2), ElementsAre(words - 1));
    EXPECT_THAT(store.lengths(), ElementsAre(3, 0, 1));
    EXPECT_EQ(store.label(2), 7);
  }
}

TEST(TokenStore, takes_16_bits_an_id_where_the_vocabulary_fits_them) {
  EXPECT_EQ(three_samples(65536).arrays().narrow.size(), 4u);
  EXPECT_EQ(three_samples(65536).arrays().wide.size(), 0u);
  EXPECT_EQ(three_samples(65537).arrays().narrow.size(), 0u);
  EXPECT_EQ(three_samples(65537).arrays().wide.size(), 4u);
}

TEST(TokenStore, gives_a_part_of_a_sample) {
  for (const int64_t words : {int64_t{65536}, int64_t{65537}}) {
    EXPECT_THAT(three_samples(words).ids(0, 1, 2), ElementsAre(65535, 3));
    EXPECT_THAT(three_samples(words).ids(2, 0, 1), ElementsAre(words - 1));
    EXPECT_THAT(three_samples(words).ids(1, 0, 0), IsEmpty());
  }
}

TEST(TokenStore, holds_nothing_at_first) {
  EXPECT_EQ(TokenStore().size(), 0);
  EXPECT_THAT(TokenStore().lengths(), IsEmpty());
}

TEST(TokenStore, is_selected_from_in_any_order) {
  const std::vector<int64_t> places{2, 0, 2};
  for (const int64_t words : {int64_t{65536}, int64_t{65537}}) {
    const TokenStore store = selected(three_samples(words), places);
    EXPECT_THAT(store.lengths(), ElementsAre(1, 3, 1));
    EXPECT_THAT(store.ids(2), ElementsAre(words - 1));
    EXPECT_EQ(store.label(1), 1);
  }
}

}  // namespace
}  // namespace adjoin::data
