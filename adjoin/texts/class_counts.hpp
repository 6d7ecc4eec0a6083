#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace adjoin::train {

/// Counts a classifier's answers for samples with known classes: for each class the samples that have it, the samples that were
/// taken for it, and the right answers among these. With few classes also each pair of classes: the confusion matrix.
class ClassCounts {
 public:
  /// Up to this number of classes pairs are counted.
  static constexpr int64_t kMostPaired = 64;

  ClassCounts() : ClassCounts(0) {}
  explicit ClassCounts(int64_t classes);
  /// An object with the `counts` of another one, as they come out of a task's tally.
  ClassCounts(int64_t classes, std::span<const double> counts);

  /// Counts samples. Shape: scores [samples, classes], labels [samples] int64
  void add(const at::Tensor& scores, const at::Tensor& labels);

  /// All counts, to be summed over workers with different samples.
  std::span<int64_t> counts() { return counts_; }

  int64_t classes() const { return classes_; }
  int64_t samples() const;
  int64_t right() const;
  int64_t of_class(int64_t c) const { return at(kActual, c); }
  int64_t taken_for(int64_t c) const { return at(kTaken, c); }

  /// Right answers divided by all; 0 where there are no samples.
  double accuracy() const;

  /// The harmonic mean of precision and recall, 2 right / (of the class + taken for it); 0 where both are 0.
  double f1(int64_t c) const;

  /// The mean of f1 over the classes that a sample has or was taken for; 0 where there are no samples.
  double macro_f1() const;

  bool has_pairs() const { return classes_ <= kMostPaired; }
  /// Samples of class `actual` that were taken for class `taken`, if pairs are counted.
  int64_t pair(int64_t actual, int64_t taken) const { return at(kPairs + actual, taken); }

 private:
  static constexpr int64_t kActual = 0, kTaken = 1, kRight = 2, kPairs = 3;  // rows of `classes` counts
  int64_t at(int64_t row, int64_t c) const { return counts_[static_cast<size_t>(row * classes_ + c)]; }
  int64_t sum(int64_t row) const;

  int64_t classes_;
  std::vector<int64_t> counts_;
};

}  // namespace adjoin::train
