#include "adjoin/nn/fixed/squares.hpp"

#include <ATen/ops/aminmax.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/on_threads.hpp"

namespace adjoin::nn::fixed {
namespace {

constexpr int64_t kLeastForThread = 1 << 15;  // elements for which a thread is worth its start
constexpr int64_t kTogether = 16;             // numbers that a compiler adds at once, each to its own sum

/// Calls `work(i, place)` for i in [0, count), with the place of i among as many as a vector register has.
template <class Work>
void together(int64_t count, const Work& work) {
  const int64_t whole = count / kTogether * kTogether;
  for (int64_t i = 0; i < whole; i += kTogether)
    for (size_t place = 0; place < kTogether; ++place) work(i + static_cast<int64_t>(place), place);
  for (int64_t i = whole; i < count; ++i) work(i, static_cast<size_t>(i - whole));
}

}  // namespace

double largest_of(const at::Tensor& x) {
  if (x.numel() == 0) return 0;
  const auto [least, most] = at::aminmax(x);  // NaN where there is one
  const double largest = std::max(-least.item<double>(), most.item<double>());
  return std::isfinite(largest) ? largest : std::numeric_limits<double>::infinity();
}

Squares::Squares(double largest) {
  // All squares are below 2^e, and 2^31 of them below 2^(e + 31), so multiples of 2^(e - 22) have exact sums.
  const int e = largest > 0 ? std::ilogb(largest * largest) + 1 : 0;
  for (size_t i = 0; i < magic_.size(); ++i) magic_[i] = std::ldexp(1.5, e + 30 - 22 * static_cast<int>(i));
}

void Squares::add(const at::Tensor& x) {
  require(x.scalar_type() == at::kFloat && x.is_contiguous(),
          "squares of another tensor than a contiguous one of float32");
  const float* const numbers = x.const_data_ptr<float>();
  std::mutex mutex;
  on_threads(x.numel(), kLeastForThread, [&](Range part) {
    std::array<double, kTogether> first{}, second{};
    together(part.size(), [&](int64_t i, size_t place) {
      const auto number = static_cast<double>(numbers[part.begin + i]);
      const double square = number * number, coarse = (square + magic_[0]) - magic_[0];
      first[place] += coarse;
      second[place] += ((square - coarse) + magic_[1]) - magic_[1];
    });
    const std::lock_guard lock(mutex);
    for (size_t place = 0; place < kTogether; ++place) sums[0] += first[place], sums[1] += second[place];
  });
}

}  // namespace adjoin::nn::fixed
