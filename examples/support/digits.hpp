#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "examples/support/example.hpp"

namespace adjoin::example {

/// What an example that learns digits is asked for.
struct DigitsOptions {
  std::string data;  ///< a folder of MNIST's t10k files; without, digits are drawn
  bool in_double = false;
  int64_t steps = 0;  ///< 0: 500, of drawn ones 100
};

constexpr int64_t kDigitsOfStep = 50;

/// run() of an example that learns digits, with --data, --precision and --steps, and what `add_options` adds; `text` is what
/// --help says of it.
int run_on_digits(
    int argc, char** argv, const char* text,
    const std::function<void(const Communicator& world, const DigitsOptions& options, Report& report)>& work,
    const std::function<void(CLI::App&)>& add_options = {});

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

/// Tells which share of other digits is right, and the losses of all steps.
void report_outcome(Report& report, double accuracy, const Digits& test, const std::vector<double>& losses);

/// The steps that the options ask for.
int64_t steps_of(const DigitsOptions& options);

}  // namespace adjoin::example
