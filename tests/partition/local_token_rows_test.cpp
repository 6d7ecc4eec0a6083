#include "adjoin/partition/local_token_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "adjoin/base/error.hpp"

namespace adjoin {
namespace {

using ::testing::ElementsAre;

// The rows of worker 1: token 2 of sample 0, then tokens 1 and 2 of sample 1.
LocalTokenRows of_second_worker() {
  return LocalTokenRows(TokenRows::of_runs({{{0, {0, 2}}, {1, {0, 1}}}, {{0, {2, 3}}, {1, {1, 3}}}}, {3, 3}), 1);
}

TEST(LocalTokenRows, are_those_of_one_worker_or_some_of_them) {
  const LocalTokenRows rows = of_second_worker();
  EXPECT_EQ(rows.size(), 3);
  EXPECT_THAT(*rows.places(3), ElementsAre(TokenPlace{0, 2}, TokenPlace{1, 1}, TokenPlace{1, 2}));
  const LocalTokenRows first = rows.part({0, 2}), second = rows.part({2, 3});
  EXPECT_THAT(*first.places(2), ElementsAre(TokenPlace{0, 2}, TokenPlace{1, 1}));
  EXPECT_THAT(*second.places(1), ElementsAre(TokenPlace{1, 2}));
  EXPECT_THAT(*first.part({1, 2}).places(1), ElementsAre(TokenPlace{1, 1}));
}

TEST(LocalTokenRows, of_which_nothing_was_said_are_a_sample_each) {
  EXPECT_FALSE(LocalTokenRows());
  EXPECT_THAT(*LocalTokenRows().places(2), ElementsAre(TokenPlace{0, 0}, TokenPlace{1, 0}));
  EXPECT_THROW(LocalTokenRows().size(), InvalidArgument);
}

TEST(LocalTokenRows, refuse_other_counts_and_workers) {
  EXPECT_THROW(of_second_worker().places(4), InvalidArgument);
  EXPECT_THROW(LocalTokenRows(TokenRows::balanced({3}, 2), 2), InvalidArgument);
  EXPECT_THROW(LocalTokenRows(TokenRows::balanced({3}, 2), -1), InvalidArgument);
}

TEST(LocalTokenRows, make_once_what_all_layers_ask_for) {
  const LocalTokenRows rows = of_second_worker();
  EXPECT_EQ(rows.places(3), rows.places(3));
  EXPECT_NE(rows.part({0, 2}).places(2), rows.places(3));
  int made = 0;
  const auto make = [&] { return ++made; };
  const TokenRows copy = rows.all();
  EXPECT_EQ(copy.once("number", make), 1);
  EXPECT_EQ(rows.all().once("number", make), 1);
  EXPECT_EQ(rows.all().once("another", make), 2);
  EXPECT_EQ(rows.all().once("number", [] { return 0.5; }), 0.5) << "values of another type have keys of their own";
}

}  // namespace
}  // namespace adjoin
