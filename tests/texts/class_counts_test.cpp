#include "adjoin/texts/class_counts.hpp"

#include <ATen/ops/eye.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <vector>

namespace adjoin::train {
namespace {

/// Samples of the classes `labels` that are taken for `taken`.
ClassCounts counted(int64_t classes, const std::vector<int64_t>& labels, const std::vector<int64_t>& taken) {
  ClassCounts counts(classes);
  counts.add(at::eye(classes).index({at::tensor(taken, at::kLong)}), at::tensor(labels, at::kLong));
  return counts;
}

TEST(ClassCounts, give_accuracy_f1_and_the_confusion_matrix) {
  const ClassCounts counts = counted(3, {0, 0, 0, 1, 1, 2}, {0, 0, 1, 1, 0, 0});
  EXPECT_EQ(counts.samples(), 6);
  EXPECT_DOUBLE_EQ(counts.accuracy(), 3.0 / 6);
  // Precision 2/4 and recall 2/3; 1/2 and 1/2; no right answer.
  EXPECT_DOUBLE_EQ(counts.f1(0), 2 * (0.5 * 2 / 3) / (0.5 + 2.0 / 3));
  EXPECT_DOUBLE_EQ(counts.f1(1), 0.5);
  EXPECT_DOUBLE_EQ(counts.f1(2), 0);
  EXPECT_DOUBLE_EQ(counts.macro_f1(), (counts.f1(0) + 0.5) / 3);
  EXPECT_EQ(counts.pair(0, 1), 1);
  EXPECT_EQ(counts.pair(2, 0), 1);
  EXPECT_EQ(counts.pair(2, 2), 0);
  EXPECT_EQ(counts.of_class(0), 3);
  EXPECT_EQ(counts.taken_for(0), 4);
}

TEST(ClassCounts, are_those_of_many_classes_without_pairs) {
  const int64_t classes = ClassCounts::kMostPaired + 1;
  ClassCounts counts = counted(classes, {64, 3}, {64, 64});
  EXPECT_FALSE(counts.has_pairs());
  EXPECT_EQ(counts.counts().size(), static_cast<size_t>(3 * classes));
  EXPECT_DOUBLE_EQ(counts.f1(64), 2.0 / 3);
  EXPECT_DOUBLE_EQ(counts.accuracy(), 0.5);
}

TEST(ClassCounts, leave_out_of_the_macro_f1_a_class_that_does_not_occur) {  // as scikit-learn's f1_score does
  EXPECT_DOUBLE_EQ(counted(3, {0, 0}, {0, 2}).macro_f1(), (2.0 / 3 + 0) / 2);
}

TEST(ClassCounts, of_nothing_are_zero) {
  EXPECT_EQ(ClassCounts(2).macro_f1(), 0);
  EXPECT_EQ(ClassCounts(2).accuracy(), 0);
  EXPECT_EQ(ClassCounts(2).f1(0), 0);
}

}  // namespace
}  // namespace adjoin::train
