#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "adjoin/lab/recording.hpp"
#include "adjoin/lab/simulator.hpp"

namespace adjoin::lab {

/// One message in a diagram, from the line of one rank to that of another.
struct Arrow {
  int from = 0, to = 0;
  double begin = 0, end = 0;  // positions on the axis
  std::string label;
  std::string tip;  // shown when a pointer rests on the arrow
};

/// A space-time diagram: one line per rank, time or steps along the axis, messages as arrows.
struct Diagram {
  std::string title, axis;  // "broadcast by tree", "step"
  int ranks = 1;
  struct Tick {
    double at = 0;
    std::string label;
    double label_shift = 0;  // relative to `at`
  };
  std::vector<Tick> ticks;  // on the axis, from 0 to its end
  std::vector<Arrow> arrows;
};

/// Labels are drawn for up to this many ranks; with more, they would hide the arrows.
inline constexpr int kMostLabelledRanks = 16;

/// The diagram as SVG, with a colour for each sender.
std::string svg_of(const Diagram& diagram);

/// The recorded messages, placed by their steps.
Diagram diagram_of(const Recording& recording, const std::string& title);

/// The simulated messages, placed by time.
Diagram diagram_of(std::span<const SimulatedMessage> messages, int ranks, const algorithm::Network& network,
                   const std::string& title);

}  // namespace adjoin::lab
