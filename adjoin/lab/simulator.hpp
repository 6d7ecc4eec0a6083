#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "adjoin/comm/algorithm/catalogue.hpp"
#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::lab {

/// A time on the simulated network, stored as the number and the total bytes of the messages sent one after another until then.
/// So no moment is a sum with rounding errors.
struct Moment {
  int64_t messages = 0, bytes = 0;
  double seconds(const algorithm::Network& network) const {
    return network.alpha * static_cast<double>(messages) + network.beta * static_cast<double>(bytes);
  }
  bool operator==(const Moment&) const = default;
};

/// One simulated message.
struct SimulatedMessage {
  int from = 0, to = 0;
  int64_t bytes = 0;
  int64_t step = 0;  // of the sender's program, from 1
  Moment begin, end;
};

struct Simulation {
  std::vector<Moment> ends;  // of each rank
  Moment end;                // of the last one
  double seconds = 0;        // the same
  int64_t messages = 0;
};

/// Returns the program of each rank; called once for each, in order.
using ProgramOf = std::function<algorithm::Program(int rank)>;
using OnMessage = std::function<void(const SimulatedMessage& message)>;

/// Runs the programs of all ranks on a network, without threads and without data.
///
/// The network is full duplex with one port per rank: a rank sends at most one message and receives at most one at a time. A
/// message occupies its sender's sending side and its receiver's receiving side for alpha + beta * bytes seconds; nothing else
/// costs time. All transfers of a step are posted together, and the next step is posted when all are complete. A message is
/// ready when both its ends are posted (a send is synchronous); the first send of a rank to another meets that one's first
/// receive. A ready message begins as soon as both its sides are free. Where several could begin at one moment, they are
/// considered in this order: first by when they became ready, then by their place in their sender's step, then by the sender's
/// rank. So equal programs give equal times.
///
/// `on_message` is called for each message, in the order in which messages begin.
/// Cost: about 0.2 us per message where none waits for a port, else up to 0.2 us times the messages that wait at the same
/// ports; the memory of what is pending and of the programs, where equal consecutive steps and equal ranks are stored once.
/// Throws: InvalidArgument for a program with a peer that does not exist. CommunicationError where programs never end, with
///         every rank that waits and for whom, or where a message is sent and received with different lengths.
Simulation simulate(int ranks, const ProgramOf& program_of, int64_t bytes_per_element,
                    const algorithm::Network& network, const OnMessage& on_message = {});

/// The same for an algorithm of the catalogue.
Simulation simulate(const algorithm::Request& request, std::string_view algorithm, int64_t bytes_per_element,
                    const algorithm::Network& network, const OnMessage& on_message = {});

}  // namespace adjoin::lab
