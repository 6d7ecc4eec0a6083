#include "adjoin/pipeline/picture.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "adjoin/base/text.hpp"

namespace adjoin::pipeline {
namespace {

constexpr int kKinds = 4;
constexpr double kMostColumns = 8;         // for the shortest action
constexpr double kLeastMakespan = 1e-290;  // for which a column's length is still a number
constexpr double kMostOfColumn = 0.6;      // a kind that takes more represents the column, even if others share it

/// The shortest action that has a cost; infinite where none has.
double shortest_action(const Schedule& schedule, const Costs& costs) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const auto& actions : schedule.actions)
    for (const Action& action : actions) {
      const double cost = costs.stages[static_cast<size_t>(action.stage)].of(action.kind);
      if (cost > 0) shortest = std::min(shortest, cost);
    }
  return shortest;
}

/// Draws rows with a given number of columns.
class TextPicture {
 public:
  TextPicture(const Schedule& schedule, const Costs& costs, const Timeline& timeline, const Page& page)
      : schedule_(schedule), costs_(costs), timeline_(timeline) {
    label_ = std::max(4, static_cast<int>(std::to_string(schedule.ranks() - 1).size()));
    columns_ = std::max(1, page.columns - label_ - 2);
    rows_ = std::min(schedule.ranks(), std::max(2, page.most_rows));
    choose_scale();
  }

  std::string text() {
    std::string text = std::string(static_cast<size_t>(label_ - 4), ' ') + "rank\n";
    for (int row = 0; row < rows_; ++row) {
      const int rank = rows_ == 1 ? 0 : static_cast<int>(int64_t{row} * (schedule_.ranks() - 1) / (rows_ - 1));
      const std::string number = std::to_string(rank);
      text += std::string(static_cast<size_t>(label_) - number.size(), ' ') + number + "  " + row_of(rank) + "\n";
    }
    return text + legend();
  }

 private:
  /// Uses whole columns for the shortest action where there is room for at least one, so that equal actions look equal.
  void choose_scale() {
    const double shortest = shortest_action(schedule_, costs_);
    if (timeline_.makespan < kLeastMakespan) {
      columns_ = 0;
      return;
    }
    const double columns_of_shortest =
        std::min(kMostColumns, std::floor(columns_ * (shortest / timeline_.makespan) * (1 + 1e-12)));
    is_sampled_ = columns_of_shortest < 1;
    column_ = is_sampled_ ? timeline_.makespan / columns_ : shortest / columns_of_shortest;
    columns_ = std::min(columns_, static_cast<int>(std::ceil(timeline_.makespan / column_ - 1e-9)));
    choose_labels(is_sampled_ ? 0 : static_cast<size_t>(columns_of_shortest));
  }

  void choose_labels(size_t room) {
    const size_t with_micro_batch = 1 + std::to_string(schedule_.micro_batches - 1).size();
    const size_t with_stage = with_micro_batch + std::to_string(schedule_.stages - 1).size();
    shows_micro_batch_ = room >= with_micro_batch;
    shows_stage_ = room >= with_stage && schedule_.stages > schedule_.ranks();
  }

  std::string row_of(int rank) { return is_sampled_ ? sampled_row(rank) : exact_row(rank); }

  double cost_of(const Action& action) const {
    return costs_.stages[static_cast<size_t>(action.stage)].of(action.kind);
  }

  std::string label_of(const Action& action) const {
    std::string text(1, letter_of(action.kind));
    if (shows_micro_batch_) text += std::to_string(action.micro_batch);
    return shows_stage_ ? std::to_string(action.stage) + text : text;
  }

  /// A column shows the action in its middle.
  std::string exact_row(int rank) {
    const auto& begins = timeline_.begins[static_cast<size_t>(rank)];
    const auto& actions = schedule_.actions[static_cast<size_t>(rank)];
    std::string row;
    std::ptrdiff_t drawn = -1;
    std::string rest;  // the rest of the label
    for (int column = 0; column < columns_; ++column) {
      const double middle = column_ * (column + 0.5);
      const std::ptrdiff_t at = std::ranges::upper_bound(begins, middle) - begins.begin() - 1;
      if (at < 0 || middle >= begins[static_cast<size_t>(at)] + cost_of(actions[static_cast<size_t>(at)])) {
        row += '.';
        continue;
      }
      const Action& action = actions[static_cast<size_t>(at)];
      if (std::exchange(drawn, at) != at) rest = label_of(action);
      row += rest.empty() ? '=' : rest.front();
      if (!rest.empty()) rest.erase(0, 1);
      note(action.kind);
    }
    return row;
  }

  std::string sampled_row(int rank) {
    std::vector<std::array<double, kKinds>> times(static_cast<size_t>(columns_));  // for each column, by kind
    const auto& begins = timeline_.begins[static_cast<size_t>(rank)];
    const auto& actions = schedule_.actions[static_cast<size_t>(rank)];
    for (size_t i = 0; i < actions.size(); ++i) {
      const double begin = begins[i] / column_, end = (begins[i] + cost_of(actions[i])) / column_;
      for (auto at = static_cast<size_t>(begin); at < times.size() && static_cast<double>(at) < end; ++at)
        times[at][static_cast<size_t>(actions[i].kind)] +=
            std::min(end, static_cast<double>(at + 1)) - std::max(begin, static_cast<double>(at));
    }
    std::string row;
    for (const auto& time : times) row += sampled_column(time);
    return row;
  }

  char sampled_column(const std::array<double, kKinds>& time) {
    double busy = 0;
    for (const double of_kind : time) busy += of_kind;
    if (busy <= 0.5) return '.';
    for (int kind = 0; kind < kKinds; ++kind)
      if (time[static_cast<size_t>(kind)] > kMostOfColumn * busy) {
        note(static_cast<Kind>(kind));
        return letter_of(static_cast<Kind>(kind));
      }
    has_mixed_ = true;
    return '*';
  }

  void note(Kind kind) { seen_[static_cast<size_t>(kind)] = true; }

  std::string legend() const {
    constexpr const char* kWords[] = {"forward", "backward", "input gradient", "weight gradient"};
    std::string text;
    for (size_t kind = 0; kind < kKinds; ++kind)
      if (seen_[kind]) text += std::string(1, kLetters[kind]) + " " + kWords[kind] + ", ";
    if (has_mixed_) text += "* several, ";
    char column[64] = "";
    if (columns_ > 0) std::snprintf(column, sizeof column, "\na column is %.4g", column_);
    return "\n" + text + ". idle" + column + "\n";
  }

  const Schedule& schedule_;
  const Costs& costs_;
  const Timeline& timeline_;
  int label_ = 0, columns_ = 0, rows_ = 0;
  double column_ = 0;        // its length in time
  bool is_sampled_ = false;  // a column may hold several actions
  bool shows_micro_batch_ = false, shows_stage_ = false;
  std::array<bool, kKinds> seen_{};  // kinds that occur in the picture
  bool has_mixed_ = false;
};

}  // namespace

std::string picture_of(const Schedule& schedule, const Costs& costs, const Timeline& timeline, const Page& page) {
  return TextPicture(schedule, costs, timeline, page).text();
}

}  // namespace adjoin::pipeline
