#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adjoin/report/run.hpp"

namespace adjoin::report {

/// An axis: the numbers from `low` to `high`, and marks at some of them.
struct Scale {
  double low = 0, high = 1;
  bool is_logarithmic = false;
  std::vector<double> ticks{};

  /// The place of a number on the axis: 0 at `low`, 1 at `high`.
  double at(double number) const;
};

/// An axis for numbers with this minimum, median and maximum: a little longer than needed, with about five marks at round
/// numbers. It is logarithmic if all numbers are above 0 and the maximum is at least a thousand times the minimum and at least
/// twenty times the median, as else most numbers would be near the bottom.
Scale scale_of(double least, double middle, double most);
/// An axis for steps, exactly as long as needed.
Scale scale_of_steps(int64_t first, int64_t last);

/// A number beside a mark: "0.25", "12.5k", "1e-06".
std::string mark_text(double number);

/// The places in a series that show all of its extremes on an axis of steps that is cut into `parts` parts: the minimum and the
/// maximum of each part, and the first and the last value; all places if there are at most two in each part.
std::vector<size_t> extremes(const Series& series, const Scale& steps, int parts);

/// The means of a series over such parts: for each part with values, the middle of their steps and their mean.
std::vector<std::pair<double, double>> means(const Series& series, const Scale& steps, int parts);

}  // namespace adjoin::report
