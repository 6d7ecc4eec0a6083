#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "adjoin/nn/distributed/dim_mean.hpp"

namespace adjoin::nn {

/// The numbers of a tensor [batch, channels, *space] over which a norm of channels takes mean and variance, whichever workers
/// hold them: for each channel or, with `per_sample`, for each channel of each sample. The plan is made once, by the
/// constructor.
class ChannelMoments {
 public:
  /// `kept`: where weight and bias, [channels], are kept.
  /// Throws: InvalidArgument for a layout that is partial or has a covering split
  ChannelMoments(const Layout& x, bool per_sample, const Layout& kept, const Grid& grid);

  /// How many numbers each mean is taken over.
  int64_t count() const { return mean_.count(); }
  /// x as [n, planes, elements]; each plane has one mean.
  at::Tensor in_planes(const at::Tensor& x) const;
  /// Mean and variance, biased. Shape: x -> [2, planes], float64; [0] outside the grid
  /// Cost:  one all-gather of two numbers a plane
  at::Tensor moments(const at::Tensor& x) const;
  /// The sums over all workers. Shape: [2, planes] -> the same. Cost: one all-reduce
  at::Tensor totals(const at::Tensor& own) const;
  /// The mean of tensors that have x's layout, differentiable to any order.
  const DimMean& mean() const { return mean_; }

  /// The layout that weight and bias [2, channels] must have. Along the axes over which sums are taken it is replicated, so
  /// that each worker gives their whole gradient; where they are kept copied there, it is copied, so that each worker gives its
  /// share.
  const Layout& affine() const { return own_.from(); }
  bool shares_affine() const { return shares_affine_; }
  /// Weight and bias for each worker's own part of x alone.
  at::Tensor own(const at::Tensor& affine) const { return own_(affine); }
  /// Whether some worker holds no elements.
  bool links() const { return links_; }

 private:
  ChannelMoments(const Layout& x, bool per_sample, const std::vector<int64_t>& dims,
                 const std::vector<std::string>& axes, const Layout& kept, const Grid& grid);

  bool per_sample_, links_, shares_affine_;
  DimMean mean_;
  std::vector<int64_t> counts_;  // numbers in a plane, for each worker along the axes that cut what is summed
  Move gather_, sum_;
  std::vector<int64_t> own_shape_;  // with two numbers for each plane here
  Move own_;
};

/// A norm's weight and bias as one tensor [2, *features]; undefined where both are.
at::Tensor stacked_affine(const at::Tensor& weight, const at::Tensor& bias);

/// A normalised batch, and its mean and variance [2, planes] as ChannelMoments gives them, without a gradient.
struct Normalised {
  at::Tensor y, moments;
};

/// (x - mean) / sqrt(variance + eps) * weight + bias, with mean and variance of the whole tensor of which x is a part. Each
/// worker computes its statistics about its own mean, so that no precision is lost where the mean is large; then they are
/// merged (Chan, Golub and LeVeque, The American Statistician 37, 1983).
///
/// Differentiable to any order: a backward that creates a graph computes everything again by small operations.
/// Shape: affine [2, channels] of weight and bias, in the layout that `over` says, or undefined
/// Cost:  one all-gather of two numbers a plane forward, an all-reduce of them backward; two passes over x forward, two over
///        x and the gradient backward
Normalised normalise_batch(const at::Tensor& x, const at::Tensor& affine,
                           const std::shared_ptr<const ChannelMoments>& over, double eps);

/// The same for planes [n, channels, elements] with given statistics [2, channels], and with weight and bias for this worker's
/// part alone.
at::Tensor normalise_by(const at::Tensor& planes, const at::Tensor& affine, const at::Tensor& moments, double eps);

/// The same by small operations, about the means that `mean` computes; differentiable to any order, also where some worker
/// holds no elements (`links`).
/// Shape: affine [2, *features] of weight and bias, or [1, *features] of a weight alone, or undefined; x has `dims_behind` dims
///        after the features
at::Tensor normalise_by_means(const at::Tensor& x, const at::Tensor& affine, int64_t dims_behind, bool is_centred,
                              double eps, const std::function<at::Tensor(const at::Tensor&)>& mean, bool links);

}  // namespace adjoin::nn
