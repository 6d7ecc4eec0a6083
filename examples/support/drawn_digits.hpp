#pragma once

#include <cstdint>

#include "examples/support/idx.hpp"

namespace adjoin::example {

/// Digits as calculators show them, of seven segments, drawn at random places, in random sizes and with noise, shaped like
/// MNIST's. The same for the same seed; digit i is (i mod 10).
/// Shape:  pictures [count, 28, 28], labels [count], uint8
LabelledPictures draw_digits(int64_t count, uint64_t seed);

}  // namespace adjoin::example
