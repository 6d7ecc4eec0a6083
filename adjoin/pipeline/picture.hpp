#pragma once

#include <string>
#include <vector>

#include "adjoin/pipeline/simulation.hpp"

namespace adjoin::pipeline {

/// A page of text that a picture fills.
struct Page {
  int columns = 80;
  int most_rows = 32;  // of so many ranks one is drawn; of more, so many that lie evenly apart
};

/// The timeline as text: a line a rank, time from left to right, an action as its letter, its micro-batch where there is
/// room for all of them (and its stage before, where a rank has several), and "=" as far as it goes. Idle time is ".".
/// Where a column is longer than the shortest action, it is "." where it is idle for half of it or more, else the kind that
/// takes most of the rest, or "*" where none takes 60 %. A last line explains the letters.
std::string picture_of(const Schedule& schedule, const Costs& costs, const Timeline& timeline, const Page& page = {});

/// The timeline as SVG: a row a rank, a box an action, in one colour a kind.
/// Throws: InvalidArgument where there are more than kMostDrawn actions
std::string svg_of(const Schedule& schedule, const Costs& costs, const Timeline& timeline, const std::string& title);
inline constexpr int64_t kMostDrawn = 20'000;

/// An action and when it ran.
struct TimedAction {
  Action action;
  double begin = 0, end = 0;
};

/// The same picture of what each rank did, as a part of an HTML page. Times are in seconds.
/// Throws: InvalidArgument as svg_of
std::string page_svg_of(const std::vector<std::vector<TimedAction>>& ranks, const std::string& label);

}  // namespace adjoin::pipeline
