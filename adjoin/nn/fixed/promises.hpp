#pragma once

#include <ATen/core/ScalarType.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/nn/fixed/kept_promises.hpp"

namespace adjoin::nn::fixed {

/// What the same bits in every layout need of this machine's kernels: that an element does not change with what is computed
/// beside it, nor with the number of threads.
struct Promise {
  std::string kernel;  ///< "gelu of bfloat16"
  /// Tries one drawn case, with numbers that use all bits of their type: a hash of the results, or nothing where they differ.
  std::function<std::optional<uint64_t>(uint64_t seed)> result_of;
};

using Product = std::function<at::Tensor(const at::Tensor& a, const at::Tensor& b)>;
using Elements = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

/// That an element of a product is the same in any block of rows and columns; of the second matrix as it is, and transposed.
Promise product_promise(const std::string& name, at::ScalarType type, const Product& product);
/// That an element is the same in any range of elements, for an operation of so many inputs.
Promise elements_promise(const std::string& name, at::ScalarType type, int inputs, const Elements& compute);
/// That a row is the same in any range of rows, and within any tensor's rows.
Promise rows_promise(const std::string& name, at::ScalarType type, int inputs, const Elements& compute);
/// That a column's sum is the same in any range of columns.
Promise columns_promise(const std::string& name, at::ScalarType type,
                        const std::function<at::Tensor(const at::Tensor&)>& sum);

/// All that kept_promises tries.
std::vector<Promise> promises();

/// Tries promises as kept_promises.
std::vector<KeptPromise> tried(const std::vector<Promise>& promises, double seconds);

}  // namespace adjoin::nn::fixed
