#include "adjoin/lab/diagram.hpp"

#include <algorithm>
#include <cmath>

#include "adjoin/base/text.hpp"
#include "adjoin/lab/measure/sizes.hpp"

namespace adjoin::lab {

namespace {

constexpr int64_t kMostStepsMarked = 40;
constexpr double kMarksOfTime = 10;  // about this many

std::string tip_of(int from, int to, int64_t bytes, int64_t step) {
  return "step " + std::to_string(step) + ": " + std::to_string(from) + " -> " + std::to_string(to) + ", " +
         std::to_string(bytes) + " bytes";
}

/// The round number (1, 2 or 5 times a power of ten) as the distance of at most about `most` marks up to `end`.
double round_step(double end, double most) {
  const double power = std::pow(10, std::floor(std::log10(end / most)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (end / (factor * power) <= most) return factor * power;
  return 10 * power;
}

}  // namespace

Diagram diagram_of(const Recording& recording, const std::string& title) {
  Diagram diagram{.title = title, .axis = "step", .ranks = recording.ranks, .ticks = {{0, ""}}, .arrows = {}};
  const int64_t steps = recording.steps(), stride = 1 + steps / kMostStepsMarked;
  for (int64_t step = 1; step <= steps; ++step)
    if (step % stride == 0 || step == steps)  // a step's number is written where the step is, before its end
      diagram.ticks.push_back({static_cast<double>(step), std::to_string(step), stride == 1 ? -0.5 : 0});
  for (const RecordedMessage& message : recording.messages)
    diagram.arrows.push_back({.from = message.from,
                              .to = message.to,
                              .begin = static_cast<double>(message.step - 1),
                              .end = static_cast<double>(message.step),
                              .label = measure::text_of_bytes(message.bytes),
                              .tip = tip_of(message.from, message.to, message.bytes, message.step)});
  return diagram;
}

Diagram diagram_of(std::span<const SimulatedMessage> messages, int ranks, const algorithm::Network& network,
                   const std::string& title) {
  Diagram diagram{.title = title, .axis = "time", .ranks = ranks, .ticks = {{0, "0"}}, .arrows = {}};
  double end = 0;
  for (const SimulatedMessage& message : messages) {
    end = std::max(end, message.end.seconds(network));
    diagram.arrows.push_back({.from = message.from,
                              .to = message.to,
                              .begin = message.begin.seconds(network),
                              .end = message.end.seconds(network),
                              .label = measure::text_of_bytes(message.bytes),
                              .tip = tip_of(message.from, message.to, message.bytes, message.step) + ", " +
                                     text_of_seconds(message.begin.seconds(network)) + " to " +
                                     text_of_seconds(message.end.seconds(network))});
  }
  if (end == 0) return diagram;
  const double step = round_step(end, kMarksOfTime);
  for (int i = 1; i * step < end * (1 + 1e-9); ++i) diagram.ticks.push_back({i * step, text_of_seconds(i * step)});
  if (diagram.ticks.back().at < end * (1 - 1e-9)) diagram.ticks.push_back({end, ""});
  return diagram;
}

}  // namespace adjoin::lab
