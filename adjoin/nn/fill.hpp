#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>

#include "adjoin/partition/layout.hpp"

namespace adjoin::nn {

/// Gives the numbers first, first + 1, … of a global tensor, counted row-major. Several threads call it.
using NumbersOf = std::function<void(std::span<double> out, int64_t first)>;

/// Fills a rank's piece of a global floating-point tensor with the numbers of its global places, so that the tensor
/// is the same in every layout.
void fill_piece(const at::Tensor& piece, const Layout& layout, int rank, const NumbersOf& numbers);

}  // namespace adjoin::nn
