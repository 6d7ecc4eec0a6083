#include "adjoin/cli/collective_report.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "adjoin/base/terminal.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/wrap.hpp"
#include "adjoin/lab/diagram.hpp"
#include "adjoin/lab/measure/sizes.hpp"
#include "adjoin/store/output_file.hpp"

namespace adjoin::cli {
namespace {

constexpr size_t kMostListed = 2000;  // messages
constexpr int kMostShown = 16;        // ranks whose elements are shown
constexpr size_t kElementsShown = 8;

using measure::text_of_bytes;

template <class Message>
void count(const Message& message, std::vector<Totals>& totals) {
  Totals &from = totals[static_cast<size_t>(message.from)], &to = totals[static_cast<size_t>(message.to)];
  ++from.sent, from.bytes_sent += message.bytes;
  ++to.received, to.bytes_received += message.bytes;
}

std::string heading_of(const Outcome& outcome) {
  const lab::Exercise& e = outcome.exercise;
  std::string title =
      std::string(name(e.collective)) + " by " + outcome.algorithm + " on " + counted(e.ranks(), "rank");
  if (has_root(e.collective)) title += ", root " + std::to_string(e.root);
  if (e.collective != Collective::barrier)
    title += ", " + text_of_bytes(outcome.bytes) + " of " + std::string(name(e.type));
  if (e.chunk > 0) title += " in pieces of " + text_of_bytes(e.chunk * size_of(e.type));
  return title;
}

std::string text_of(const algorithm::Network& network) {
  char text[96];
  std::snprintf(text, sizeof text, "alpha %g s a message, beta %g s a byte", network.alpha, network.beta);
  return text;
}

void print_messages(const lab::Recording& recording) {
  if (recording.messages.size() > kMostListed) {
    std::printf("\n%zu messages, more than are listed\n", recording.messages.size());
    return;
  }
  std::printf("\n%s", recording.messages.empty() ? "no messages\n" : "");
  for (const lab::RecordedMessage& message : recording.messages)
    std::printf("step %-4ld %4d -> %-4d %10ld bytes\n", static_cast<long>(message.step), message.from, message.to,
                static_cast<long>(message.bytes));
}

void print_totals(const Outcome& outcome) {
  std::printf("\nrank      sent  received    bytes sent  bytes received\n");
  for (size_t r = 0; r < outcome.totals.size(); ++r) {
    const Totals& total = outcome.totals[r];
    std::printf("%4zu  %8ld  %8ld  %12ld  %14ld\n", r, static_cast<long>(total.sent), static_cast<long>(total.received),
                static_cast<long>(total.bytes_sent), static_cast<long>(total.bytes_received));
  }
}

void print_held(const lab::Values& held) {
  if (held.empty()) std::printf(" nothing");
  for (size_t i = 0; i < std::min(held.size(), kElementsShown); ++i) std::printf(" %ld", static_cast<long>(held[i]));
  if (held.size() > kElementsShown) std::printf(" … (%zu elements)", held.size());
}

void print_result(const Outcome& outcome) {
  const lab::Trial& trial = *outcome.trial;
  std::printf("\nThe result is %s.\n", trial.is_right ? "right" : "WRONG");
  if (outcome.exercise.collective == Collective::barrier || trial.held.size() > kMostShown) return;
  for (size_t r = 0; r < trial.held.size(); ++r) {
    std::printf("rank %2zu holds", r);
    print_held(trial.held[r]);
    std::printf("\n");
  }
}

std::string text_of(const lab::Contender& contender) {
  return std::string(contender.algorithm) + " " + text_of_seconds(contender.seconds);
}

nlohmann::ordered_json json_of(const lab::Contender& contender) {
  nlohmann::ordered_json json = {{"algorithm", contender.algorithm}, {"seconds", contender.seconds}};
  if (contender.chunk > 0) json["chunk"] = contender.chunk;
  return json;
}

}  // namespace

Outcome find_out(const lab::Exercise& exercise, const std::string& algorithm, int64_t bytes, bool runs,
                 const std::optional<algorithm::Network>& network, bool is_to_be_drawn) {
  Outcome outcome{.exercise = exercise, .algorithm = algorithm, .bytes = bytes};
  const algorithm::Request request = request_of(exercise);
  outcome.steps = steps_of(request, algorithm);
  outcome.totals.resize(static_cast<size_t>(exercise.ranks()));
  if (runs) {
    outcome.trial = lab::try_out(exercise, algorithm);
    for (const lab::RecordedMessage& message : outcome.trial->recording.messages) count(message, outcome.totals);
  }
  outcome.network = network;
  if (!network) return outcome;
  const auto on_message = [&](const lab::SimulatedMessage& message) {
    if (!runs) count(message, outcome.totals);
    if (is_to_be_drawn) outcome.simulated.push_back(message);
  };
  outcome.simulated_seconds = lab::simulate(request, algorithm, size_of(exercise.type), *network, on_message).seconds;
  return outcome;
}

void print_outcome(const Outcome& outcome) {
  std::printf("%s\n", heading_of(outcome).c_str());
  if (outcome.trial) print_messages(outcome.trial->recording);
  print_totals(outcome);
  if (outcome.trial) print_result(outcome);
  std::printf("\n%s\n", counted(outcome.steps, "step").c_str());
  if (outcome.trial)
    std::printf("%s on threads (measured)\n", text_of_seconds(outcome.trial->seconds).c_str());
  else
    std::printf("not run: so many ranks are simulated only\n");
  if (outcome.network)
    std::printf("%s on a network of %s (simulated)\n", text_of_seconds(outcome.simulated_seconds).c_str(),
                text_of(*outcome.network).c_str());
}

void print_outcome_json(const Outcome& outcome) {
  nlohmann::ordered_json json = {{"ranks", nlohmann::ordered_json::array()}};
  for (size_t r = 0; r < outcome.totals.size(); ++r)
    json["ranks"].push_back({{"rank", r},
                             {"sent", outcome.totals[r].sent},
                             {"received", outcome.totals[r].received},
                             {"bytes_sent", outcome.totals[r].bytes_sent},
                             {"bytes_received", outcome.totals[r].bytes_received}});
  json["steps"] = outcome.steps;
  json["seconds"] = outcome.network ? outcome.simulated_seconds : outcome.trial->seconds;
  std::printf("%s\n", json.dump().c_str());
}

void write_svg(const Outcome& outcome, const std::string& path) {
  const std::string title = heading_of(outcome);
  const lab::Diagram diagram = outcome.network
                                   ? lab::diagram_of(outcome.simulated, outcome.exercise.ranks(), *outcome.network,
                                                     title + " (" + text_of(*outcome.network) + ")")
                                   : lab::diagram_of(outcome.trial->recording, title);
  train::write_atomically(path, lab::svg_of(diagram));
}

void print_contests(std::span<const lab::Contest> contests, Collective collective, const algorithm::Network& network) {
  std::printf("The quickest %s by formula: %s\n\n", std::string(name(collective)).c_str(), text_of(network).c_str());
  constexpr size_t kWidth = 22, kRanksWidth = 6;
  const auto rows_end = std::find_if(contests.begin(), contests.end(),
                                     [&](const lab::Contest& contest) { return contest.ranks != contests[0].ranks; });
  const auto sizes = static_cast<size_t>(rows_end - contests.begin());
  const int terminal = terminal_columns(STDOUT_FILENO);
  const size_t page = terminal > 0 ? static_cast<size_t>(terminal) : kPage;
  const size_t at_once = std::max<size_t>(1, (std::max(page, kRanksWidth) - kRanksWidth) / (kWidth + 2));
  for (size_t first = 0; first < sizes; first += at_once) {  // as many sizes as the page has room for, then the next
    const size_t end = std::min(first + at_once, sizes);
    std::printf("%s%*s", first > 0 ? "\n" : "", int{kRanksWidth}, "ranks");
    for (size_t i = first; i < end; ++i) std::printf("  %*s", int{kWidth}, text_of_bytes(contests[i].bytes).c_str());
    for (size_t row = 0; row < contests.size(); row += sizes) {
      std::printf("\n%*d", int{kRanksWidth}, contests[row].ranks);
      for (size_t i = row + first; i < row + end; ++i)
        std::printf("  %*s", int{kWidth}, text_of(contests[i].contenders.front()).c_str());
    }
    std::printf("\n");
  }
}

void print_contests_json(std::span<const lab::Contest> contests, Collective collective,
                         const algorithm::Network& network) {
  nlohmann::ordered_json json = {{"operation", name(collective)}, {"alpha", network.alpha}, {"beta", network.beta}};
  json["results"] = nlohmann::ordered_json::array();
  for (const lab::Contest& contest : contests) {
    nlohmann::ordered_json result = {{"ranks", contest.ranks}, {"bytes", contest.bytes}};
    result.update(json_of(contest.contenders.front()));
    for (const lab::Contender& contender : contest.contenders) result["all"].push_back(json_of(contender));
    json["results"].push_back(std::move(result));
  }
  std::printf("%s\n", json.dump().c_str());
}

}  // namespace adjoin::cli
