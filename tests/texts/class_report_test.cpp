#include "adjoin/texts/class_report.hpp"

#include <ATen/ops/eye.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace adjoin::train {
namespace {

ClassCounts counts_of(int64_t classes, const std::vector<int64_t>& labels, const std::vector<int64_t>& taken) {
  ClassCounts counts(classes);
  counts.add(at::eye(classes).index({at::tensor(taken, at::kLong)}), at::tensor(labels, at::kLong));
  return counts;
}

TEST(ClassReport, shows_f1_and_the_confusion_matrix) {
  EXPECT_EQ(class_report(data::ClassNames({"caf\u00e9", "sport"}), counts_of(2, {0, 0, 1, 1}, {0, 1, 1, 1}), 80),
            "  class  samples     F1\n"
            "  caf\u00e9         2  0.667\n"
            "  sport        2  0.800\n"
            "  macro F1 0.733\n"
            "\n"
            "  is \\ taken for  caf\u00e9  sport\n"
            "  caf\u00e9               1      1\n"
            "  sport              0      2\n");
}

TEST(ClassReport, leaves_the_matrix_out_where_it_is_too_wide_and_cuts_long_names) {
  std::vector<std::string> names;
  for (int i = 0; i < 10; ++i) names.push_back("class " + std::to_string(i) + std::string(40, '\x1b'));
  const std::string report = class_report(data::ClassNames(names), counts_of(10, {0}, {0}), 80);
  EXPECT_EQ(std::count(report.begin(), report.end(), '\n'), 12) << report;
  EXPECT_EQ(report.find('\x1b'), report.npos);
  EXPECT_NE(report.find("  class 3\\x1b\\x1b\\x1b\\x...        0  0.000\n"), report.npos) << report;
}

TEST(ClassReport, of_classes_too_many_to_pair_has_no_matrix) {
  std::vector<std::string> names;
  for (int i = 0; i < 65; ++i) names.push_back(std::to_string(i));
  const std::string report = class_report(data::ClassNames(names), counts_of(65, {0}, {0}), 1000);
  EXPECT_EQ(report.find("taken for"), report.npos);
}

}  // namespace
}  // namespace adjoin::train
