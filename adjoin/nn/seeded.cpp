#include "adjoin/nn/seeded.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace adjoin::nn {

void with_seed(uint64_t seed, const std::function<void()>& work) {
  static std::recursive_mutex one_at_a_time;  // `work` may seed a part of what it makes
  const std::lock_guard turn(one_at_a_time);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor before = generator.get_state();
  struct Restored {
    at::Generator& generator;
    const at::Tensor& state;
    ~Restored() { generator.set_state(state); }
  } const restored{generator, before};
  generator.set_current_seed(seed);
  work();
}

}  // namespace adjoin::nn
