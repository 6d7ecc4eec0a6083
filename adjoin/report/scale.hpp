#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adjoin/report/run.hpp"

namespace adjoin::report {

/// An axis: the numbers from `low` to `high`, of which some are marked.
struct Scale {
  double low = 0, high = 1;
  bool is_logarithmic = false;
  std::vector<double> ticks{};

  /// The place of a number: 0 at `low`, 1 at `high`.
  double at(double number) const;
};

/// An axis for numbers of which these are the least, the middle (as many are smaller as are larger) and the greatest: a little
/// longer than they need, with about five marks at round numbers. Logarithmic where all are above 0, the greatest is a thousand
/// times the least or more, and twenty times the middle one or more, so that most would lie at the bottom.
Scale scale_of(double least, double middle, double most);
/// An axis for steps, as long as they need.
Scale scale_of_steps(int64_t first, int64_t last);

/// A number beside a mark: "0.25", "12.5k", "1e-06".
std::string mark_text(double number);

/// The places in a series that show all of its extremes on an axis of steps which is cut into so many parts: the least and the
/// greatest value of each part, and the first and the last one; all places where there are no more than two a part.
std::vector<size_t> extremes(const Series& series, const Scale& steps, int parts);

/// The means of a series over such parts: where there are values, the middle of their steps and their mean.
std::vector<std::pair<double, double>> means(const Series& series, const Scale& steps, int parts);

}  // namespace adjoin::report
