#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "adjoin/cli/output.hpp"
#include "adjoin/comm/algorithm/catalogue.hpp"
#include "adjoin/lab/comparison.hpp"
#include "adjoin/lab/exercise.hpp"
#include "adjoin/lab/simulator.hpp"
#include "adjoin/lab/trial.hpp"

namespace adjoin::cli {

/// What one rank sent and received.
struct Totals {
  int64_t sent = 0, received = 0, bytes_sent = 0, bytes_received = 0;
};

/// The results of `adjoin collective` for one operation: of a run or, if there was none, of a simulation.
struct Outcome {
  lab::Exercise exercise;
  std::string algorithm;
  int64_t bytes = 0;
  int64_t steps = 0;
  std::vector<Totals> totals = {};                    // for each rank
  std::optional<lab::Trial> trial = {};               // on threads
  std::optional<algorithm::Network> network = {};     // of the simulation
  double simulated_seconds = 0;                       // if there is a network
  std::vector<lab::SimulatedMessage> simulated = {};  // if they are to be drawn
};

/// Runs the operation on threads unless there are too many ranks, and simulates it if there is a network.
Outcome find_out(const lab::Exercise& exercise, const std::string& algorithm, int64_t bytes, bool runs,
                 const std::optional<algorithm::Network>& network, bool is_to_be_drawn);

Report report_of(const Outcome& outcome, bool as_json);
Report report_of(std::span<const lab::Contest> contests, Collective collective, const algorithm::Network& network,
                 bool as_json);

/// Throws: IoError where the file cannot be written.
void write_svg(const Outcome& outcome, const std::string& path);

}  // namespace adjoin::cli
