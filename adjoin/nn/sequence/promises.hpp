#pragma once

#include <ATen/core/ScalarType.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/nn/sequence/kept_promises.hpp"

namespace adjoin::nn::fixed {

/// What the same bits in every layout need of this machine's kernels: that an element does not change with what is computed
/// beside it, nor with the number of threads.
struct Promise {
  std::string kernel;  ///< "gelu of bfloat16"
  /// Tries one drawn case, with numbers that use all bits of their type: a hash of the results, or nothing where they differ.
  std::function<std::optional<uint64_t>(uint64_t seed)> result_of;
};

using Operation = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

/// That an element of an operation's result is the same in any range along some dims. A letter is a dim, whose size is drawn
/// (kMost in promises.cpp); ranges are cut along those in capitals, of the inputs and the result alike: a product is {"Rk", "kC"} and "RC".
Promise promise(const std::string& name, at::ScalarType type, const std::vector<std::string>& inputs,
                const std::string& result, const Operation& compute);

/// All that kept_promises tries.
std::vector<Promise> promises();

}  // namespace adjoin::nn::fixed
