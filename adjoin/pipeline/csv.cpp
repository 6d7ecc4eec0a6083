#include <algorithm>
#include <charconv>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/pipeline/schedule.hpp"
#include "adjoin/pipeline/walk.hpp"

namespace adjoin::pipeline {
namespace {

constexpr std::string_view kSpace = " \t\r";
constexpr std::string_view kOverlap = ")OVERLAP_F_B";

/// Removes the number at the beginning of a text and returns it in `number`. False where there is none that is valid in
/// a schedule.
bool take_number(std::string_view& text, int& number) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return error == std::errc() && number < kMostActions / 2;
}

std::optional<Action> action_from(std::string_view text) {
  Action action;
  if (!take_number(text, action.stage) || text.empty()) return {};
  const size_t kind = kLetters.find(text[0]);
  if (kind == std::string_view::npos) return {};
  action.kind = static_cast<Kind>(kind);
  text.remove_prefix(1);
  if (!take_number(text, action.micro_batch) || !text.empty()) return {};
  return action;
}

/// A cell that is not a plain action, in the form in which an error shows it.
std::string shown(std::string_view cell) {
  constexpr size_t kMostShown = 40;
  return "\"" + printable(cell.substr(0, kMostShown)) + (cell.size() > kMostShown ? "…\"" : "\"");
}

/// Reads line by line, and records the column of each action.
class Reader {
 public:
  Reader(std::optional<int> ranks, std::optional<int> micro_batches) : ranks_(ranks), micro_batches_(micro_batches) {}

  Schedule read(std::string_view csv) {
    if (csv.starts_with("\xEF\xBB\xBF")) csv.remove_prefix(3);  // spreadsheets begin a text with it
    csv = csv.substr(0, csv.find_last_not_of(" \t\r\n") + 1);
    require(!csv.empty(), "the schedule is empty, expected one line for each rank, with cells such as 0F3");
    for (const std::string_view line : parts_of(csv, '\n')) add_line(line);
    require(!ranks_ || schedule_.ranks() == *ranks_, [&] {
      return "the schedule has " + counted(schedule_.ranks(), "line") + ", one for each rank, expected " +
             std::to_string(*ranks_);
    });
    require(count_ > 0, "the schedule has no action, expected one line for each rank, with cells such as 0F3");
    check_stages();
    check(schedule_, columns_);
    require(!micro_batches_ || schedule_.micro_batches == *micro_batches_, [&] {
      return "the schedule has " + counted(schedule_.micro_batches, "micro-batch", "micro-batches") + ", expected " +
             std::to_string(*micro_batches_);
    });
    return std::move(schedule_);
  }

 private:
  void add_line(std::string_view line) {
    schedule_.actions.emplace_back();
    columns_.emplace_back();
    column_ = 0;
    for (const std::string_view cell : parts_of(line)) {
      ++column_;
      add_cell(trimmed(cell, kSpace));
    }
  }

  std::string place(std::string_view cell) const {
    return "rank " + std::to_string(schedule_.ranks() - 1) + ", column " + std::to_string(column_) + " (" +
           shown(cell) + ")";
  }

  void add_cell(std::string_view cell) {
    if (cell.empty()) return;
    if (!cell.starts_with('(') || !cell.ends_with(kOverlap)) return add_action(cell, cell);
    std::string_view rest = cell.substr(1, cell.size() - 1 - kOverlap.size());
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(';'), rest.size());
      add_action(trimmed(rest.substr(0, end), kSpace), cell);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }

  void add_action(std::string_view text, std::string_view cell) {
    const std::optional<Action> action = action_from(text);
    require(action.has_value(), [&] {
      return place(cell) + " is not an action, expected one such as 0F3: stage, F, B, I or W, micro-batch";
    });
    require(!micro_batches_ || action->micro_batch < *micro_batches_,
            [&] { return place(cell) + ": expected micro-batches from 0 to " + std::to_string(*micro_batches_ - 1); });
    require(++count_ <= kMostActions,
            [&] { return place(cell) + ": expected at most " + grouped(kMostActions) + " actions"; });
    schedule_.actions.back().push_back(*action);
    columns_.back().push_back(column_);
    schedule_.stages = std::max(schedule_.stages, action->stage + 1);
    schedule_.micro_batches = std::max(schedule_.micro_batches, action->micro_batch + 1);
  }

  /// A stage belongs to the rank that has its first action.
  void check_stages() {
    std::vector<int>& rank_of = schedule_.rank_of;
    rank_of.assign(static_cast<size_t>(schedule_.stages), -1);
    for (int rank = 0; rank < schedule_.ranks(); ++rank)
      for (const Action& action : schedule_.actions[static_cast<size_t>(rank)])
        if (int& of = rank_of[static_cast<size_t>(action.stage)]; of < 0) of = rank;
    const auto missing = std::ranges::find(rank_of, -1);
    require(missing == rank_of.end(), [&] {
      return "the schedule has a stage " + std::to_string(schedule_.stages - 1) + " on rank " +
             std::to_string(rank_of.back()) + ", but no stage " + std::to_string(missing - rank_of.begin());
    });
  }

  std::optional<int> ranks_, micro_batches_;
  Schedule schedule_;
  std::vector<std::vector<int>> columns_;
  int column_ = 0;
  int64_t count_ = 0;
};

}  // namespace

Schedule read_schedule(std::string_view csv, std::optional<int> ranks, std::optional<int> micro_batches) {
  return Reader(ranks, micro_batches).read(csv);
}

std::string to_csv(const Schedule& schedule) {
  check(schedule);
  std::vector<std::string> lines(schedule.actions.size());
  std::vector<int64_t> columns(schedule.actions.size());  // of each line so far
  int64_t cells = 0;
  Walk walk(
      schedule, [](const Action&) { return 1.0; }, 0);
  walk.run([&](int rank, const Action& action, double begin, double /*end*/) {
    const auto r = static_cast<size_t>(rank);
    const auto column = static_cast<int64_t>(begin);
    cells += column + 1 - columns[r];
    require(cells <= kMostCells, [] { return "the table has more than " + grouped(kMostCells) + " cells"; });
    lines[r].append(static_cast<size_t>(column - columns[r]) + (columns[r] > 0 ? 1 : 0), ',');
    lines[r] += text_of(action);
    columns[r] = column + 1;
  });
  std::string csv;
  for (std::string& line : lines) {
    csv += line += '\n';
    line = {};
  }
  return csv;
}

}  // namespace adjoin::pipeline
