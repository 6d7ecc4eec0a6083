#include "adjoin/cli/collective_report.hpp"

#include <unistd.h>

#include <algorithm>
#include <iomanip>

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
  return formatted("alpha %g s a message, beta %g s a byte", network.alpha, network.beta);
}

void print_messages(std::ostream& out, const lab::Recording& recording) {
  if (recording.messages.size() > kMostListed) {
    out << '\n' << recording.messages.size() << " messages, more than are listed\n";
    return;
  }
  out << (recording.messages.empty() ? "\nno messages\n" : "\n");
  for (const lab::RecordedMessage& message : recording.messages)
    out << formatted("step %-4ld %4d -> %-4d %10ld bytes\n", static_cast<long>(message.step), message.from, message.to,
                     static_cast<long>(message.bytes));
}

void print_result(std::ostream& out, const Outcome& outcome) {
  const lab::Trial& trial = *outcome.trial;
  out << "\nThe result is " << (trial.is_right ? "right" : "WRONG") << ".\n";
  if (outcome.exercise.collective == Collective::barrier || trial.held.size() > kMostShown) return;
  for (size_t r = 0; r < trial.held.size(); ++r) {
    const lab::Values& held = trial.held[r];
    out << "rank " << std::setw(2) << r << " holds" << (held.empty() ? " nothing" : "");
    for (size_t i = 0; i < std::min(held.size(), kElementsShown); ++i) out << ' ' << held[i];
    if (held.size() > kElementsShown) out << " … (" << held.size() << " elements)";
    out << '\n';
  }
}

std::string text_of(const lab::Contender& contender) {
  return std::string(contender.algorithm) + " " + text_of_seconds(contender.seconds);
}

Json json_of(const lab::Contender& contender) {
  Json json = {{"algorithm", contender.algorithm}, {"seconds", contender.seconds}};
  if (contender.chunk > 0) json["chunk"] = contender.chunk;
  return json;
}

/// As many sizes as the page has room for, then the next.
void print_quickest(std::ostream& out, std::span<const lab::Contest> contests) {
  constexpr int kWidth = 22, kRanksWidth = 6;
  const auto rows_end = std::find_if(contests.begin(), contests.end(),
                                     [&](const lab::Contest& contest) { return contest.ranks != contests[0].ranks; });
  const auto sizes = static_cast<size_t>(rows_end - contests.begin());
  const int terminal = terminal_columns(STDOUT_FILENO), page = terminal > 0 ? terminal : int{kPage};
  const auto at_once = static_cast<size_t>(std::max(1, (page - kRanksWidth) / (kWidth + 2)));
  for (size_t first = 0; first < sizes; first += at_once) {
    const size_t end = std::min(first + at_once, sizes);
    out << (first > 0 ? "\n" : "") << std::setw(kRanksWidth) << "ranks";
    for (size_t i = first; i < end; ++i) out << "  " << std::setw(kWidth) << text_of_bytes(contests[i].bytes);
    for (size_t row = 0; row < contests.size(); row += sizes) {
      out << '\n' << std::setw(kRanksWidth) << contests[row].ranks;
      for (size_t i = row + first; i < row + end; ++i)
        out << "  " << std::setw(kWidth) << text_of(contests[i].contenders.front());
    }
    out << '\n';
  }
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

Report report_of(const Outcome& outcome, bool as_json) {
  Report report{as_json};
  report.text << heading_of(outcome) << '\n';
  if (outcome.trial) print_messages(report.text, outcome.trial->recording);
  report.text << '\n';
  report.table(report.json["ranks"], "r", outcome.totals.size(), [&](size_t r) -> Row {
    const Totals& total = outcome.totals[r];
    return {{"rank", r},
            {"    sent=sent", total.sent},
            {"received", total.received},
            {"  bytes sent=bytes_sent", total.bytes_sent},
            {"bytes received=bytes_received", total.bytes_received}};
  });
  if (outcome.trial) print_result(report.text, outcome);
  report.text << '\n' << counted(outcome.steps, "step") << '\n';
  if (outcome.trial)
    report.text << text_of_seconds(outcome.trial->seconds) << " on threads (measured)\n";
  else
    report.text << "not run: so many ranks are simulated only\n";
  if (outcome.network)
    report.text << text_of_seconds(outcome.simulated_seconds) << " on a network of " << text_of(*outcome.network)
                << " (simulated)\n";
  report.json["steps"] = outcome.steps;
  report.json["seconds"] = outcome.network ? outcome.simulated_seconds : outcome.trial->seconds;
  return report;
}

void write_svg(const Outcome& outcome, const std::string& path) {
  const std::string title = heading_of(outcome);
  const lab::Diagram diagram = outcome.network
                                   ? lab::diagram_of(outcome.simulated, outcome.exercise.ranks(), *outcome.network,
                                                     title + " (" + text_of(*outcome.network) + ")")
                                   : lab::diagram_of(outcome.trial->recording, title);
  train::write_atomically(path, lab::svg_of(diagram));
}

Report report_of(std::span<const lab::Contest> contests, Collective collective, const algorithm::Network& network,
                 bool as_json) {
  Report report{as_json};
  report.text << "The quickest " << name(collective) << " by formula: " << text_of(network) << "\n\n";
  print_quickest(report.text, contests);
  report.json = {{"operation", name(collective)}, {"alpha", network.alpha}, {"beta", network.beta}};
  report.json["results"] = list_of(contests, [](const lab::Contest& contest) {
    Json result = {{"ranks", contest.ranks}, {"bytes", contest.bytes}};
    result.update(json_of(contest.contenders.front()));
    result["all"] = list_of(contest.contenders, [](const lab::Contender& contender) { return json_of(contender); });
    return result;
  });
  return report;
}

}  // namespace adjoin::cli
