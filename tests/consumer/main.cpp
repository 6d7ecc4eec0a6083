// What a project on LibTorch gets: a movement that autograd differentiates through.

#include <ATen/ATen.h>

#include <cstdio>
#include <stdexcept>

#include "adjoin/comm/launch.hpp"

int main() {
  adjoin::launch_threads(2, [](const adjoin::Communicator& world) {
    at::Tensor values = at::full({2}, 1.0 + world.rank(), at::kDouble);
    world.all_reduce({values.data_ptr(), values.numel(), adjoin::ElementType::float64});
    if (!at::equal(values, at::full({2}, 3.0, at::kDouble)))
      throw std::runtime_error("the sum over 2 workers is not 3");
  });
  std::puts("2 workers have summed");
}
