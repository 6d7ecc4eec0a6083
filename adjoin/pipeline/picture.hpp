#pragma once

#include <string>
#include <vector>

#include "adjoin/pipeline/simulation.hpp"

namespace adjoin::pipeline {

/// A page of text for a picture.
struct Page {
  int columns = 80;
  int most_rows = 32;  // up to this many ranks, all are drawn; of more, this many at even distances
};

/// The timeline as text: one line per rank, time from left to right. An action is its letter, then its micro-batch where there
/// is room for all of them (preceded by its stage, where a rank has several), then "=" to its end. Idle time is ".". Where a
/// column is longer than the shortest action, it is "." if it is idle for half of it or more, else the kind that takes most of
/// the rest, or "*" if none takes 60 %. A last line explains the letters.
std::string picture_of(const Schedule& schedule, const Costs& costs, const Timeline& timeline, const Page& page = {});

/// The timeline as SVG: one row per rank, one box per action, one colour per kind.
/// Throws: InvalidArgument where there are more than kMostDrawn actions
std::string svg_of(const Schedule& schedule, const Costs& costs, const Timeline& timeline, const std::string& title);
inline constexpr int64_t kMostDrawn = 20'000;

/// An action and the time when it ran.
struct TimedAction {
  Action action;
  double begin = 0, end = 0;
};

/// The same picture for what each rank has done, as part of an HTML page. Times are in seconds.
/// Throws: InvalidArgument as svg_of
std::string page_svg_of(const std::vector<std::vector<TimedAction>>& ranks, const std::string& label);

}  // namespace adjoin::pipeline
