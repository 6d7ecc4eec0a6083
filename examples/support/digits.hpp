#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace adjoin::example {

/// What an example that learns digits is asked for.
struct DigitsOptions {
  std::string data;  ///< a folder of MNIST's t10k files; without, digits are drawn
  bool in_double = false;
  int64_t steps = 0;  ///< 0: 500, of drawn ones 100
};

constexpr int64_t kDigitsOfStep = 50;

/// Adds --data, --precision and --steps to a command.
void add_digits_options(CLI::App& app, DigitsOptions& options);

/// Pictures [n, 1, 28, 28] of numbers around 0, and labels [n] of int64.
struct Digits {
  at::Tensor pictures, labels;
  Digits part(int64_t begin, int64_t end) const { return {pictures.slice(0, begin, end), labels.slice(0, begin, end)}; }
  Digits chosen(const std::vector<int64_t>& indices) const;
  int64_t size() const { return labels.size(0); }
};

/// Four fifths of the digits to train, and others to test.
struct DigitsToLearn {
  Digits train, test;
};

/// Throws: InvalidArgument as load_mnist, and for pictures of another size, or fewer than 250
DigitsToLearn read_digits(const DigitsOptions& options);

/// The steps that the options ask for.
int64_t steps_of(const DigitsOptions& options);

}  // namespace adjoin::example
