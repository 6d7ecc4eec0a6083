#include "adjoin/nn/sequence/dropped_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace adjoin::nn {
namespace {

constexpr int32_t kThreshold = 20'000;

/// Numbers of any size, the first hidden, and random words: as many as there may be in a row, and one more.
template <class T>
struct RowData {
  explicit RowData(int64_t size) {
    for (int64_t i = 0; i <= size; ++i) {
      scores.push_back(static_cast<T>(std::sin(1.7 * static_cast<double>(i)) * 40));
      gradients.push_back(static_cast<T>(std::cos(0.9 * static_cast<double>(i))));
      words.push_back(static_cast<uint16_t>(i * 40'503));
    }
    scores[0] = -std::numeric_limits<T>::infinity();
  }
  std::vector<T> scores, gradients;
  std::vector<uint16_t> words;
  bool keeps(size_t i) const { return words[i] >= kThreshold; }
};

/// Calls `check(set, size)` for each instruction set of this machine, with full registers and what is left over.
template <class Check>
void for_each_set_and_size(const Check& check) {
  for (const InstructionSet set : kInstructionSets)
    if (is_supported(set))
      for (const int64_t size : {1, 2, 5, 16, 33, 71}) {
        SCOPED_TRACE("instruction set " + std::to_string(static_cast<int>(set)) + ", size " + std::to_string(size));
        check(set, size);
      }
}

template <class T>
void expect_exponentials() {
  constexpr T kNear = 8 * std::numeric_limits<T>::epsilon();
  for_each_set_and_size([&](InstructionSet set, int64_t size) {
    const RowData<T> data(size);
    std::vector<T> row = data.scores;
    const auto [largest, sum] = exponentials_of<T>(set, {size, data.words.data(), kThreshold}, row.data());
    EXPECT_EQ(largest, *std::max_element(data.scores.begin(), data.scores.begin() + size));
    double expected_sum = 0;
    for (size_t i = 0; i < static_cast<size_t>(size); ++i) {
      const double e = size == 1 ? 0 : std::exp(static_cast<double>(data.scores[i] - largest));
      expected_sum += e;
      EXPECT_NEAR(row[i], data.keeps(i) ? e : 0, kNear * e) << i;
    }
    EXPECT_NEAR(sum, expected_sum, kNear * expected_sum);
    EXPECT_EQ(row.back(), data.scores.back()) << "wrote beyond the row";
  });
}

TEST(DroppedRows, become_exponentials_of_which_some_are_dropped) {
  expect_exponentials<float>();
  expect_exponentials<double>();
}

template <class T>
void expect_gradients() {
  constexpr T kNear = 16 * std::numeric_limits<T>::epsilon();
  const RowGradient<T> at{T(40.5), T(1.25), T(0.3)};
  for_each_set_and_size([&](InstructionSet set, int64_t size) {
    const RowData<T> data(size);
    std::vector<T> row = data.scores, gradients = data.gradients;
    gradients_of<T>(set, {size, data.words.data(), kThreshold}, at, row.data(), gradients.data());
    for (size_t i = 0; i < static_cast<size_t>(size); ++i) {
      const double p = std::exp(static_cast<double>(data.scores[i] - at.log_sum)), kept = data.keeps(i) ? at.factor : 0;
      EXPECT_NEAR(row[i], p * kept, kNear * p) << i;
      EXPECT_NEAR(gradients[i], p * (static_cast<double>(data.gradients[i]) * kept - at.product), kNear * p) << i;
    }
    EXPECT_EQ(row.back(), data.scores.back()) << "wrote beyond the row";
    EXPECT_EQ(gradients.back(), data.gradients.back()) << "wrote beyond the row";
  });
}

TEST(DroppedRows, have_gradients_of_what_was_not_dropped) {
  expect_gradients<float>();
  expect_gradients<double>();
}

TEST(DroppedRows, give_not_a_number_where_a_score_is_none) {
  for_each_set_and_size([](InstructionSet set, int64_t size) {
    RowData<float> data(size);
    data.scores[static_cast<size_t>(size) - 1] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(exponentials_of<float>(set, {size, data.words.data(), kThreshold}, data.scores.data()).sum));
  });
}

}  // namespace
}  // namespace adjoin::nn
