#pragma once

#include <optional>
#include <span>
#include <vector>

#include "adjoin/nn/parameter.hpp"

namespace adjoin::insitu {

/// Scales each channel by a mean and a deviation. They are given, or running: those of all cells that were observed, 0 and 1 before. They
/// are kept in float64 and saved with the weights.
class Normaliser : public nn::ShardedModule {
 public:
  struct Moments {
    std::vector<double> mean, deviation;  // of each channel
  };
  /// Without moments they are running.
  Normaliser(int64_t channels, bool is_inverse, std::optional<Moments> given, const Grid& grid);
  /// Begins with the moments that were given.
  void reset();

  /// Shape: [batch, channels, *space] -> the same
  /// Returns (x - mean) / deviation, or of an inverse one x * deviation + mean.
  at::Tensor apply(const at::Tensor& x) const;
  /// x / deviation.
  at::Tensor scaled(const at::Tensor& x) const;
  bool is_inverse() const { return is_inverse_; }
  bool is_running() const { return !given_; }

  /// What this rank adds to `merge`: for each channel the number of its cells, and the sums of their differences from the mean and of the
  /// squares of these. Zeros for a piece without elements.
  std::vector<double> sums(const at::Tensor& x) const;
  /// Takes the sums over all ranks into account, as if all observed cells had come at once.
  /// Source: Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979
  void merge(std::span<const double> sums);

 private:
  at::Tensor of_channels(const at::Tensor& numbers, const at::Tensor& x) const;
  at::Tensor scale(const at::Tensor& x) const;  // the deviation; 1 for channels that are constant

  int64_t channels_;
  bool is_inverse_;
  std::optional<Moments> given_;
  at::Tensor mean_, deviation_, count_;
};

}  // namespace adjoin::insitu
