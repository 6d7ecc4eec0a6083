#include "adjoin/pipeline/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/pytorch_schedules.hpp"

namespace adjoin::pipeline {
namespace {

using adjoin::testing::thrown_by;
using ::testing::HasSubstr;

std::vector<std::string> lines_of(const Schedule& schedule) {
  std::vector<std::string> lines;
  for (const auto& actions : schedule.actions) {
    std::vector<std::string> texts;
    for (const Action& action : actions) texts.push_back(text_of(action));
    lines.push_back(joined(texts, " "));
  }
  return lines;
}

TEST(Schedules, are_the_published_ones) {
  EXPECT_EQ(lines_of(make_schedule("gpipe", 2, 3)),
            (std::vector<std::string>{"0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1F1 1F2 1B0 1B1 1B2"}));
  // arXiv 2104.04473, figure 4 (PipeDream-Flush).
  EXPECT_EQ(lines_of(make_schedule("1f1b", 3, 4)),
            (std::vector<std::string>{"0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3", "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3",
                                      "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3"}));
  // arXiv 2401.10241, section 2: rank r is r micro-batches behind with W.
  EXPECT_EQ(lines_of(make_schedule("zb-h1", 3, 4)),
            (std::vector<std::string>{"0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3",
                                      "1F0 1F1 1I0 1F2 1I1 1W0 1F3 1I2 1W1 1I3 1W2 1W3",
                                      "2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3"}));
}

TEST(Schedules, interleaved_is_the_one_of_pytorch_where_the_ranks_divide_the_micro_batches) {
  EXPECT_EQ(make_schedule("interleaved", 4, 8, 2), read_schedule(test::kInterleaved1F1B));
}

/// The order of Megatron-LM's schedules.py: warm-up, one forward and one backward at a time, the remaining backwards.
std::vector<Action> megatron_order(int rank, int ranks, int micro_batches, int chunks) {
  const int all = micro_batches * chunks;
  const auto action = [&](Kind kind, int i) {
    const int chunk = i % (ranks * chunks) / ranks;
    return Action{(kind == Kind::forward ? chunk : chunks - 1 - chunk) * ranks + rank, kind,
                  i / (ranks * chunks) * ranks + i % ranks};
  };
  const int warmup = std::min(all, (ranks - rank - 1) * 2 + (chunks - 1) * ranks);
  std::vector<Action> order;
  for (int i = 0; i < warmup; ++i) order.push_back(action(Kind::forward, i));
  for (int i = warmup; i < all; ++i) {
    order.push_back(action(Kind::forward, i));
    order.push_back(action(Kind::backward, i - warmup));
  }
  for (int i = all - warmup; i < all; ++i) order.push_back(action(Kind::backward, i));
  return order;
}

TEST(Schedules, interleaved_is_megatrons_order_where_the_ranks_divide_the_micro_batches) {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (int groups = 1; groups <= 4; ++groups)
      for (int chunks = 1; chunks <= 4; ++chunks)
        for (int rank = 0; rank < ranks; ++rank)
          EXPECT_EQ(make_schedule("interleaved", ranks, groups * ranks, chunks).actions[static_cast<size_t>(rank)],
                    megatron_order(rank, ranks, groups * ranks, chunks));
}

TEST(Schedules, are_right_for_all_numbers) {
  for (const std::string_view name : schedule_names())
    for (int ranks = 1; ranks <= 9; ++ranks)
      for (int micro_batches = 1; micro_batches <= 25; ++micro_batches)
        for (int chunks = 1; chunks <= (name == "interleaved" ? 4 : 1); ++chunks) {
          const Schedule schedule = make_schedule(name, ranks, micro_batches, chunks);
          EXPECT_NO_THROW(check(schedule)) << name << " " << ranks << " " << micro_batches << " " << chunks;
          EXPECT_EQ(schedule.stages, ranks * chunks);
          EXPECT_EQ(schedule.micro_batches, micro_batches);
        }
}

TEST(Schedules, add_gradients_in_the_order_of_the_micro_batches) {
  for (const std::string_view name : schedule_names())
    for (int ranks = 1; ranks <= 6; ++ranks)
      for (int micro_batches = 1; micro_batches <= 14; ++micro_batches)
        for (const auto& actions : make_schedule(name, ranks, micro_batches).actions) {
          std::map<Kind, int> next;
          for (const Action& action : actions) EXPECT_EQ(action.micro_batch, next[action.kind]++) << name;
        }
}

TEST(Schedules, refuse_what_is_none) {
  const auto message = [](const char* name, int ranks, int micro_batches, int chunks) {
    return thrown_by<InvalidArgument>([&] { make_schedule(name, ranks, micro_batches, chunks); });
  };
  EXPECT_EQ(message("dream", 1, 1, 1), "unknown schedule \"dream\", expected one of gpipe, 1f1b, interleaved, zb-h1");
  EXPECT_EQ(message("gpipe", 0, 1, 1), "a schedule of 0 ranks, expected 1 or more");
  EXPECT_EQ(message("1f1b", 1, -2, 1), "a schedule of -2 micro-batches, expected 1 or more");
  EXPECT_EQ(message("interleaved", 1, 1, 0), "a schedule of 0 chunks, expected 1 or more");
  EXPECT_THAT(message("zb-h1", 2, 2, 2), HasSubstr("only interleaved can have more than 1"));
  EXPECT_EQ(message("gpipe", 1 << 20, 9, 1),
            "1,048,576 ranks of 1 stage with 9 micro-batches need more than the 16,777,216 actions that a schedule may "
            "have");
  EXPECT_THAT(message("interleaved", 1 << 30, 1 << 30, 1 << 30), HasSubstr("need more than"));
}

}  // namespace
}  // namespace adjoin::pipeline
