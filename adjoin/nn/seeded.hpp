#pragma once

#include <cstdint>
#include <functional>

namespace adjoin::nn {

/// Runs `work`, whose operations on the CPU draw from a generator of this thread with this seed where they would draw from
/// LibTorch's default generator, which all threads of a process share: what each rank draws depends on the seed alone.
void with_seed(uint64_t seed, const std::function<void()>& work);

/// A module of torch::nn with the weights that it draws from this seed; the same on every rank and for every number of ranks:
///
///     const auto model = nn::seeded(1, [] { return torch::nn::Linear(3, 4); });
template <class Make>
auto seeded(uint64_t seed, const Make& make) {
  decltype(make()) made{nullptr};
  with_seed(seed, [&] { made = make(); });
  return made;
}

}  // namespace adjoin::nn
