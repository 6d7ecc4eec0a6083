#pragma once

#include <cstdint>
#include <functional>

namespace adjoin::nn {

/// Runs `work` with LibTorch's default generator seeded, and then restores the generator's state. The threads of a process
/// share that generator, so they take turns here: what each rank draws then depends on the seed alone. `work` must not
/// communicate, as the other ranks wait.
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
