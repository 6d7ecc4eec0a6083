#pragma once

#include <functional>
#include <string>
#include <vector>

namespace adjoin::plan {

/// What measuring a part of a step once gave.
struct Reading {
  std::vector<double> numbers;  ///< the seconds among them are the greater the more something disturbed
  double lost = 0;              ///< the share of the time, 0 to 1, in which the workers had no processor

  double sum() const;
};

/// A part of steps, such as a segment or a call, which is measured several times.
struct MeasuredPart {
  std::string name;
  std::string kind;  ///< once time is up, a part is measured only if none of its kind was
  std::function<Reading()> measure;
  std::vector<Reading> readings = {};

  /// A reading that was disturbed little: the middle one, by their sums, of those that lost at most `tolerance` and are at most
  /// twice `tolerance` above the least of these; where all lost more, the least; none where nothing was measured.
  const Reading* best(double tolerance) const;
  /// Whether the best reading can be trusted: it lost at most `tolerance`, and if there are several readings, another one is as
  /// close to it.
  bool is_sure(double tolerance) const;
};

/// Measures the parts in rounds, each part once a round, so that what disturbs the machine for some time meets only some of the
/// readings of each part. There are three rounds; then parts that are not sure are measured in up to seven more. No more rounds
/// begin after `seconds`, but each part, or another of its kind, is measured once. `spent`: the seconds since the beginning.
void measure_in_rounds(std::vector<MeasuredPart>& parts, double seconds, double tolerance,
                       const std::function<double()>& spent);

}  // namespace adjoin::plan
