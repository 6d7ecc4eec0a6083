#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "adjoin/nn/distributed/dim_mean.hpp"

namespace adjoin::nn {

/// A batch that is normalised, and its statistics, which carry no gradient.
struct Normalised {
  at::Tensor y;
  at::Tensor mean, variance;  ///< of the whole batch, as DimMean gives them; biased
};

/// (x - mean) / sqrt(variance + eps) * weight + bias, where mean and variance are those of the whole
/// tensor that x is a part of. Each plane's own statistics are taken about its own mean, so that nothing is lost where the
/// mean is large, and merged (Chan, Golub and LeVeque, The American Statistician 37, 1983).
///
/// Shape:  x as `over` takes it, whose first two dims are [batch, channels]; affine [2, planes] of weight and bias, or none,
///         where the planes are those dims of x of which `over` leaves [channels] or [batch, channels]
/// Cost:   two all-reduces of a number a plane forward and two backward; two passes over x forward, two over x and the
///         gradient backward
/// Throws: InvalidArgument in backward where a second derivative is asked
Normalised normalise_batch(const at::Tensor& x, const at::Tensor& affine, const std::shared_ptr<const DimMean>& over,
                           double eps);

/// The same with statistics that are given, which differentiates to any order.
/// Shape:  mean and variance [channels]
at::Tensor normalise_by(const at::Tensor& x, const at::Tensor& affine, const at::Tensor& mean,
                        const at::Tensor& variance, double eps);

}  // namespace adjoin::nn
