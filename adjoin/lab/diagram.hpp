#pragma once

#include <span>
#include <string>

#include "adjoin/lab/recording.hpp"
#include "adjoin/lab/simulator.hpp"
#include "adjoin/lab/space_time.hpp"

namespace adjoin::lab {

/// Recorded messages along their steps.
Diagram diagram_of(const Recording& recording, const std::string& title);

/// Simulated messages along the time.
Diagram diagram_of(std::span<const SimulatedMessage> messages, int ranks, const algorithm::Network& network,
                   const std::string& title);

/// "0 s", "850 ns", "12.5 us", "3.07 ms", "1.2 s": three digits.
std::string text_of_seconds(double seconds);

}  // namespace adjoin::lab
