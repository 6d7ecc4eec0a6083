#include "adjoin/train/validation.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/data/random.hpp"

namespace adjoin::train {
namespace {

constexpr uint64_t kHoldOut = 0x686f6c64;  // the stream of the seed that draws the samples

}  // namespace

HeldOut hold_out(int64_t samples, double part, uint64_t seed) {
  HeldOut held;
  held.train.resize(static_cast<size_t>(samples));
  std::iota(held.train.begin(), held.train.end(), int64_t{0});
  if (part == 0) return held;
  require(samples >= 2, [&] {
    return "--validation: expected at least 2 training samples to hold one out, got " + std::to_string(samples);
  });
  const int64_t count = std::clamp<int64_t>(std::llround(part * static_cast<double>(samples)), 1, samples - 1);
  data::SplitMix64 random(seed, kHoldOut);
  data::shuffle(held.train, random);
  const auto middle = held.train.end() - count;
  held.validation.assign(middle, held.train.end());
  held.train.erase(middle, held.train.end());
  std::sort(held.train.begin(), held.train.end());
  std::sort(held.validation.begin(), held.validation.end());
  return held;
}

bool Validations::count(int64_t step, double loss) {
  const bool is_best = !best_loss || loss < *best_loss;
  since_best = is_best ? 0 : since_best + 1;
  if (is_best) {
    best_loss = loss;
    best_step = step;
  }
  return is_best;
}

}  // namespace adjoin::train
