#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "adjoin/partition/split.hpp"

namespace adjoin::nn {

/// Along one dim: the inputs that make each of some outputs, and their weights, tap by tap.
struct Taps {
  std::vector<std::vector<int64_t>> index;  ///< index[tap][output]
  std::vector<std::vector<double>> weight;  ///< weight[tap][output]; empty where each output is one input
};

/// The inputs that any tap reads.
Range read_by(const Taps& taps);

/// A linear map along each of the last dims of a tensor. It works plane by plane, so that what is computed between two dims
/// stays in the cache.
class Interpolation {
 public:
  /// For a tensor that holds, along each dim, exactly the range that the taps read.
  explicit Interpolation(const std::vector<Taps>& dims);

  /// Shape: [*, what is read of each dim] -> [*, the outputs of each dim]; 16-bit types compute in float32
  /// Cost:  for each dim, the number of its outputs times the number of taps, in products
  at::Tensor operator()(const at::Tensor& x) const;

 private:
  struct Dim {
    int64_t inputs = 0, outputs = 0, taps = 0;
    std::vector<int64_t> index = {};  // [outputs, taps]
    std::vector<double> weight = {};
  };
  at::Tensor mapped(const at::Tensor& x, bool is_adjoint) const;
  /// The same by LibTorch's operations, on a device.
  at::Tensor mapped_by_operations(at::Tensor x, bool is_adjoint) const;
  template <class T>
  void map_planes(const at::Tensor& x, const at::Tensor& y, bool is_adjoint) const;

  std::vector<Dim> dims_;
};

}  // namespace adjoin::nn
