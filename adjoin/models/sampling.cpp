#include "adjoin/models/sampling.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/philox.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::models {
namespace {

std::vector<double> numbers_of(const at::Tensor& scores) {
  const at::Tensor precise = plain("sampling", scores.detach()).cpu().to(at::kDouble).contiguous();
  const auto* first = precise.const_data_ptr<double>();
  std::vector<double> numbers(first, first + precise.numel());
  require(!numbers.empty() && std::all_of(numbers.begin(), numbers.end(), [](double x) { return std::isfinite(x); }),
          "sampling: expected scores of at least 1 word, all of them finite");
  return numbers;
}

/// A number of [0, 1) with 53 bits.
double uniform_number(const Sampling& sampling, int64_t position) {
  const auto low = [](int64_t x) { return static_cast<uint32_t>(x); };
  const auto high = [](int64_t x) { return static_cast<uint32_t>(static_cast<uint64_t>(x) >> 32); };
  const PhiloxCounter words = philox({low(position), high(position), low(sampling.sequence), high(sampling.sequence)},
                                     philox_key(sampling.seed, "sampling"));
  return static_cast<double>((static_cast<uint64_t>(words[0] >> 5) << 26) | (words[1] >> 6)) * 0x1p-53;
}

}  // namespace

void check(const Sampling& sampling) {
  require(sampling.temperature > 0 && std::isfinite(sampling.temperature),
          [&] { return "sampling: expected a temperature above 0, got " + shortest_text(sampling.temperature); });
  require(!sampling.top_k || *sampling.top_k >= 1,
          [&] { return "sampling: expected a top-k of at least 1 word, got " + std::to_string(*sampling.top_k); });
  require(sampling.top_p > 0 && sampling.top_p <= 1,
          [&] { return "sampling: expected a top-p above 0 and at most 1, got " + shortest_text(sampling.top_p); });
}

int64_t likeliest_word(const at::Tensor& scores) {
  const std::vector<double> numbers = numbers_of(scores);
  return std::max_element(numbers.begin(), numbers.end()) - numbers.begin();
}

int64_t drawn_word(const at::Tensor& scores, const Sampling& sampling, int64_t position) {
  check(sampling);
  const std::vector<double> numbers = numbers_of(scores);
  std::vector<size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return numbers[a] > numbers[b]; });
  if (sampling.top_k) order.resize(std::min(order.size(), static_cast<size_t>(*sampling.top_k)));
  std::vector<double> sums;  // sums of the probabilities, not yet divided by their total
  for (double sum = 0; const size_t word : order)
    sums.push_back(sum += std::exp((numbers[word] - numbers[order[0]]) / sampling.temperature));
  const auto at_least = [&](double sum) {
    return std::min(std::lower_bound(sums.begin(), sums.end(), sum), sums.end() - 1);
  };
  const double total = *at_least(sampling.top_p * sums.back());
  const auto drawn = std::upper_bound(sums.begin(), sums.end(), uniform_number(sampling, position) * total);
  return static_cast<int64_t>(order[static_cast<size_t>(std::min(drawn, at_least(total)) - sums.begin())]);
}

}  // namespace adjoin::models
