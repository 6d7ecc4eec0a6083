#include "adjoin/comm/contract/diagnosis.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include "adjoin/base/text.hpp"

namespace adjoin::diagnosis {

namespace {

std::string line_of(const Worker& worker) {
  switch (worker.state) {
    case Worker::State::runs:
      return worker.call.empty() ? "computes" : worker.call + ", not ended yet";
    case Worker::State::rests:
      return worker.call.empty() ? "" : worker.call;
    case Worker::State::waits:
      break;
  }
  std::vector<int> needs = worker.needs;
  std::sort(needs.begin(), needs.end());
  needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
  return worker.call + ", waits for " + ranks_text(needs);
}

}  // namespace

std::vector<bool> stuck(std::span<const Worker> workers, int ranks) {
  std::vector<bool> can_act(static_cast<size_t>(ranks)), is_stuck(workers.size());
  for (size_t i = 0; i < workers.size(); ++i) {
    is_stuck[i] = workers[i].state == Worker::State::waits;
    if (workers[i].state == Worker::State::runs) can_act[static_cast<size_t>(workers[i].rank)] = true;
  }
  const auto is_freed = [&](const Worker& worker) {
    const auto acts = [&](int rank) { return can_act[static_cast<size_t>(rank)]; };
    return worker.needs_any ? std::ranges::any_of(worker.needs, acts) : std::ranges::all_of(worker.needs, acts);
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < workers.size(); ++i) {
      if (!is_stuck[i] || !is_freed(workers[i])) continue;
      is_stuck[i] = false;
      can_act[static_cast<size_t>(workers[i].rank)] = changed = true;
    }
  }
  return is_stuck;
}

std::string group_name(std::span<const int> world_ranks, int world_size) {
  const bool is_sorted = std::is_sorted(world_ranks.begin(), world_ranks.end());
  if (world_ranks.empty() || (static_cast<int>(world_ranks.size()) == world_size && is_sorted)) return "";
  return " on group {" + ranges_text(world_ranks) + "}";
}

std::string text_of(std::chrono::milliseconds time) {
  std::ostringstream text;
  text << std::chrono::duration<double>(time).count() << " s";
  return text.str();
}

std::string list_of(std::span<const Line> lines) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (const auto& [rank, line] : lines) {
    auto found = std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == line; });
    if (found == groups.end()) found = groups.insert(found, {line, {}});
    found->second.push_back(rank);
  }
  std::string text;
  for (const auto& [line, ranks] : groups) text += "\n  " + ranks_text(ranks) + ": " + line;
  return text;
}

std::string report(const std::string& headline, std::span<const Worker> workers, int ranks) {
  std::vector<Line> lines;
  for (int rank = 0; rank < ranks; ++rank) {
    bool is_there = false;
    for (const Worker& worker : workers) {
      if (worker.rank != rank) continue;
      is_there = true;
      if (const std::string text = line_of(worker); !text.empty()) lines.push_back({rank, text});
    }
    if (!is_there) lines.push_back({rank, "has returned"});
  }
  return headline + list_of(lines);
}

}  // namespace adjoin::diagnosis
