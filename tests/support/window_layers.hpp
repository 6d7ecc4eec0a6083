#pragma once

#include <torch/expanding_array.h>

#include <functional>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/layout.hpp"
#include "tests/support/layouts.hpp"

namespace adjoin::testing {

/// Options of a layer with windows, and an input that they fit: [batch, channels, *space], or without the batch.
struct WindowCase {
  size_t dims = 2;  ///< of space
  int64_t channels = 1;
  std::vector<int64_t> input, kernel, stride, dilation, padding;
  bool has_batch() const { return input.size() == dims + 2; }
  std::string to_string() const;
};

/// `half_padding`: no more than half of the kernel, as poolings want it.
WindowCase random_window_case(Numbers& draw, size_t dims, bool half_padding);

/// Layouts of an input and a weight [a, b, *kernel] whose features lie in dims 0 and 1: on one grid, each axis of which
/// cuts rows (batch or space) of the input and leaves the weight copied, or cuts features; or on grids of their own.
struct WindowLayouts {
  Layout input, weight;
};
WindowLayouts random_window_layouts(Numbers& draw, const std::vector<int64_t>& input, size_t channel_dim,
                                    const std::vector<int64_t>& weight, int workers);

/// A layout of an input alone, and a rule for an output, which may be none.
struct EndLayouts {
  Layout input;
  std::function<Layout(const std::vector<int64_t>&)> output;
};
EndLayouts random_end_layouts(Numbers& draw, const std::vector<int64_t>& input, int workers);

template <size_t D>
torch::ExpandingArray<D> array(const std::vector<int64_t>& numbers) {
  return torch::ExpandingArray<D>(at::IntArrayRef(numbers));
}

/// Runs random trials until one fails, fewer under MPI; the seed is in the message of what fails.
void for_each_seed(const Communicator& world, int trials, const std::function<void(uint64_t seed)>& fn);

}  // namespace adjoin::testing
