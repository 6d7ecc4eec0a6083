#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "adjoin/data/samples.hpp"
#include "adjoin/partition/token_rows.hpp"
#include "tests/data/data_files.hpp"

namespace adjoin::data {
namespace {

/// Words of the reviews of an epoch, of which a text keeps at most 2,048.
std::vector<int64_t> lengths_of_reviews() {
  const auto reader = open_samples(real_data("imdb"), Part::train);
  std::vector<int64_t> lengths;
  for (Sample sample; reader->next(sample);)
    lengths.push_back(std::min<int64_t>(2048, 1 + std::count(sample.text.begin(), sample.text.end(), ' ')));
  return lengths;
}

/// Pairs of a query and a key of the same text, of each worker's queries.
std::vector<double> pairs_of(const TokenRows& rows, bool causal) {
  std::vector<double> pairs(static_cast<size_t>(rows.workers()));
  for (int worker = 0; worker < rows.workers(); ++worker)
    for (const Run& run : rows.runs(worker)) {
      const auto length = static_cast<double>(rows.lengths()[static_cast<size_t>(run.sample)]);
      const auto begin = static_cast<double>(run.tokens.begin), end = static_cast<double>(run.tokens.end);
      pairs[static_cast<size_t>(worker)] += causal ? (end - begin) * (begin + end + 1) / 2 : (end - begin) * length;
    }
  return pairs;
}

TEST(EqualWork, of_attention_to_an_epoch_of_reviews_is_within_2_per_cent) {
  const std::vector<int64_t> lengths = lengths_of_reviews();
  ASSERT_GT(lengths.size(), 24000u);
  for (const int workers : {2, 3, 4})
    for (const bool causal : {false, true}) {
      const std::vector<double> pairs =
          pairs_of(causal ? TokenRows::zigzag(lengths, workers) : TokenRows::balanced(lengths, workers), causal);
      const auto [least, most] = std::minmax_element(pairs.begin(), pairs.end());
      EXPECT_LT(*most / *least, 1.02) << workers << " workers, causal " << causal;
    }
}

}  // namespace
}  // namespace adjoin::data
