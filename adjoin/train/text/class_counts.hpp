#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace adjoin::train {

/// What a classifier made of samples whose classes are known: how many there were of each class, how many it took for each,
/// and how many of these it was right about. Of few classes also each pair: the confusion matrix.
class ClassCounts {
 public:
  /// So many classes have their pairs counted.
  static constexpr int64_t kMostPaired = 64;

  ClassCounts() : ClassCounts(0) {}
  explicit ClassCounts(int64_t classes);
  /// What `counts` of such an object were, as they come out of a task's tally.
  ClassCounts(int64_t classes, std::span<const double> counts);

  /// Counts samples. Shape: scores [samples, classes], labels [samples] int64
  void add(const at::Tensor& scores, const at::Tensor& labels);

  /// All counts, which workers that saw different samples sum.
  std::span<int64_t> counts() { return counts_; }

  int64_t classes() const { return classes_; }
  int64_t samples() const;
  int64_t right() const;
  int64_t of_class(int64_t c) const { return at(kActual, c); }
  int64_t taken_for(int64_t c) const { return at(kTaken, c); }

  /// Right answers among all; 0 where there are no samples.
  double accuracy() const;

  /// The harmonic mean of precision and recall, 2 right / (of the class + taken for it); 0 where there are neither.
  double f1(int64_t c) const;

  bool has_pairs() const { return classes_ <= kMostPaired; }
  /// Samples of class `actual` that were taken for `taken`, where there are pairs.
  int64_t pair(int64_t actual, int64_t taken) const { return at(kPairs + actual, taken); }

 private:
  static constexpr int64_t kActual = 0, kTaken = 1, kRight = 2, kPairs = 3;  // rows of `classes` counts
  int64_t at(int64_t row, int64_t c) const { return counts_[static_cast<size_t>(row * classes_ + c)]; }
  int64_t sum(int64_t row) const;

  int64_t classes_;
  std::vector<int64_t> counts_;
};

}  // namespace adjoin::train
