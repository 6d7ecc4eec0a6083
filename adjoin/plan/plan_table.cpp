#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/plan/layouts.hpp"
#include "adjoin/plan/plan.hpp"
#include "adjoin/task/same_bits.hpp"

namespace adjoin::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kPage = 80;

std::string mebibytes(int64_t bytes) {
  return fixed(static_cast<double>(bytes) / (1 << 20), 1);
}

/// A table whose columns of numbers are on the right; the options fill the remaining room, on as many lines as they need.
class Table {
 public:
  explicit Table(std::vector<size_t> widths) : widths_(std::move(widths)) {}

  void add(std::ostream& out, const std::vector<std::string>& numbers, const std::string& options) const {
    std::string line;
    for (size_t i = 0; i < widths_.size(); ++i)
      line += std::string(std::max(widths_[i], numbers[i].size() + 1) - numbers[i].size(), ' ') + numbers[i];
    line += ' ';
    const size_t indent = line.size();
    bool is_empty = true;
    for (const std::string& word : together(options)) {
      if (!is_empty && line.size() + 1 + word.size() > kPage) {
        out << line << '\n';
        line = std::string(indent, ' ');
      }
      line.append(" ").append(word);
      is_empty = false;
    }
    out << line << '\n';
  }

 private:
  /// The options, each together with its value.
  static std::vector<std::string> together(const std::string& options) {
    std::vector<std::string> words;
    for (const std::string_view word : parts_of(options, ' ')) {
      if (word.starts_with("--") || words.empty())
        words.emplace_back(word);
      else
        words.back().append(" ").append(word);
    }
    return words;
  }

  std::vector<size_t> widths_;
};

std::vector<std::string> numbers_of(const PlannedLayout& layout) {
  const auto percent = [](double part) { return fixed(100 * part, 0); };
  if (!layout.is_timed()) return {"-", "-", mebibytes(layout.memory), "-", "-", "-", "-"};
  return {fixed(layout.time.seconds, 4),  fixed(layout.samples_per_second, 1), mebibytes(layout.memory),
          percent(layout.time.computing), percent(layout.time.communicating),  percent(layout.time.hidden),
          percent(layout.time.bubble)};
}

/// " (1.33 of an even share)": what the busiest rank has, where --same-bits makes ranks unequal.
std::string share_text(const train::Configuration& c) {
  const double share = train::share_of_busiest_rank(c);
  return share > 1 ? " (" + fixed(share, 2) + " of an even share)" : "";
}

void print_list(std::ostream& out, std::span<const PlannedLayout> layouts, size_t most) {
  const Table table({9, 11, 10, 6, 6, 6, 6});
  table.add(out, {"seconds", "samples/s", "MiB", "comp%", "comm%", "hid%", "idle%"}, "options");
  const size_t shown = most == 0 ? layouts.size() : std::min(most, layouts.size());
  for (const PlannedLayout& layout : layouts.first(shown))
    table.add(out, numbers_of(layout), options_of(layout.configuration) + share_text(layout.configuration));
  if (shown < layouts.size())
    out << "  and " << grouped(std::ssize(layouts) - static_cast<int64_t>(shown)) << " more (--lines 0: all)\n";
}

/// What a step of the first layout waits for, part after part.
void print_path(std::ostream& out, const StepTime& time) {
  out << "\ncritical path of the first, in seconds; hidden: calls while ranks compute\n";
  std::vector<std::vector<std::string>> table{{"  part", "seconds", "computing", "waiting", "hidden"}};
  for (const StepPhase& phase : time.path)
    table.push_back({std::string("  ") + phase.name, fixed(phase.seconds(), 4), fixed(phase.computing, 4),
                     fixed(phase.communicating, 4), fixed(phase.hidden, 4)});
  out << table_text(table, "lrrrr");
}

Json path_of(const StepTime& time) {
  Json path = Json::array();
  for (const StepPhase& phase : time.path)
    path.push_back({{"part", phase.name},
                    {"computing_seconds", phase.computing},
                    {"waiting_seconds", phase.communicating},
                    {"hidden_seconds", phase.hidden}});
  return path;
}

Json json_of(const PlannedLayout& layout) {
  Json json{{"options", options_of(layout.configuration)}};
  const auto whole = train::to_json(layout.configuration);
  for (const auto* names : {&fields_of_grid(), &fields_of_methods()})
    for (const std::string& name : *names) json[name] = whole.at(name);
  const auto measured = [&](double number) { return layout.is_timed() ? Json(number) : Json(); };
  json.update({{"step_seconds", measured(layout.time.seconds)},
               {"samples_per_second", measured(layout.samples_per_second)},
               {"computing", measured(layout.time.computing)},
               {"communicating", measured(layout.time.communicating)},
               {"hidden", measured(layout.time.hidden)},
               {"bubble", measured(layout.time.bubble)},
               {"path", path_of(layout.time)},
               {"memory_bytes", layout.memory},
               {"checkpoint_bytes", layout.copies},
               {"share_of_busiest_rank", train::share_of_busiest_rank(layout.configuration)}});
  return json;
}

/// The layout that was measured.
const PlannedLayout& planned(const Plan& plan, const MeasuredLayout& measured) {
  const auto found = std::ranges::find_if(
      plan.fitting, [&](const PlannedLayout& layout) { return options_of(layout.configuration) == measured.options; });
  if (found == plan.fitting.end()) throw InternalError(measured.options + " was measured and is not in the plan");
  return *found;
}

}  // namespace

void print(std::ostream& out, const Plan& plan, size_t most) {
  out << counted(plan.ranks, "rank") << ", " << counted(std::ssize(plan.fitting), "layout")
      << (plan.memory ? " of at most " + mebibytes(*plan.memory) + " MiB a rank" : std::string())
      << ", the quickest first\n";
  if (!plan.fitting.empty()) print_list(out, plan.fitting, most);
  if (!plan.too_large.empty()) {
    out << "\n" << counted(std::ssize(plan.too_large), "layout") << " that need more, the smallest first\n";
    print_list(out, plan.too_large, most);
  }
  out << "\npredicted: seconds of a step, MiB of tensors on the fullest rank, and the shares\n"
         "of all ranks' time spent computing, communicating, communicating while they\n"
         "compute (hidden) and idle in a pipeline\n";
  const auto& layouts = plan.fitting.empty() ? plan.too_large : plan.fitting;
  if (const auto numbers = layouts.empty() ? std::nullopt : train::same_bits(layouts[0].configuration))
    out << "sums of " << numbers->to_string() << "; behind options: the part of an even share\n"
        << "that the busiest rank has, where ranks do not divide these numbers\n";
  if (!plan.fitting.empty() && plan.fitting[0].is_timed()) print_path(out, plan.fitting[0].time);
  const auto all = {&plan.fitting, &plan.too_large};
  int64_t copies = 0;
  for (const auto* list : all)
    for (const PlannedLayout& layout : *list) copies = std::max(copies, layout.copies);
  if (copies > 0)
    out << "to fit, a layout also needs room to copy a checkpoint: up to " << mebibytes(copies) << " MiB\n";
  for (const std::string& remark : plan.remarks) out << remark << '\n';
}

bool is_refuted(const Plan& plan, std::span<const MeasuredLayout> measured) {
  double sum = 0, worst = 0;
  for (const MeasuredLayout& layout : measured) {
    const double error = std::abs(planned(plan, layout).time.seconds / layout.seconds - 1);
    sum += error;
    worst = std::max(worst, error);
  }
  return sum > 0.07 * static_cast<double>(measured.size()) || worst > 0.2;
}

void print_check(std::ostream& out, const Plan& plan, std::span<const MeasuredLayout> measured) {
  const Table table({10, 10, 7, 10, 10, 7});
  out << "\npredicted and measured: seconds of a step, MiB of the fullest rank\n";
  table.add(out, {"predicted", "measured", "error", "predicted", "measured", "error"}, "options");
  const auto percent = [](double predicted, double seen) { return fixed(100 * (predicted / seen - 1), 1) + "%"; };
  double sum = 0, of_memory = 0, least = 0;
  const MeasuredLayout* first = nullptr;  // in the plan's order
  for (const MeasuredLayout& of_layout : measured) {
    const PlannedLayout& layout = planned(plan, of_layout);
    const double seconds = of_layout.seconds, predicted = static_cast<double>(layout.memory),
                 seen = static_cast<double>(of_layout.memory);
    table.add(out,
              {fixed(layout.time.seconds, 4), fixed(seconds, 4), percent(layout.time.seconds, seconds),
               mebibytes(layout.memory), mebibytes(of_layout.memory), percent(predicted, seen)},
              options_of(layout.configuration));
    sum += std::abs(layout.time.seconds / seconds - 1);
    of_memory += std::abs(predicted / seen - 1);
    if (first == nullptr || layout.time.seconds < planned(plan, *first).time.seconds) first = &of_layout;
    least = least == 0 ? seconds : std::min(least, seconds);
  }
  if (measured.empty()) return;
  const auto count = static_cast<double>(measured.size());
  out << "mean error of the seconds " << fixed(100 * sum / count, 1) << " %, of the memory "
      << fixed(100 * of_memory / count, 1) << " %\nthe first layout took " << fixed(first->seconds / least, 3)
      << " times as long as the quickest\n";
}

Json to_json(const Plan& plan, std::span<const MeasuredLayout> measured) {
  Json json{{"ranks", plan.ranks}, {"memory", nullptr}, {"layouts", Json::array()}, {"too_large", Json::array()}};
  if (plan.memory) json["memory"] = *plan.memory;
  for (const PlannedLayout& layout : plan.fitting) json["layouts"].push_back(json_of(layout));
  for (const MeasuredLayout& layout : measured)
    json["layouts"][static_cast<size_t>(&planned(plan, layout) - plan.fitting.data())].update(
        {{"measured_step_seconds", layout.seconds}, {"measured_memory_bytes", layout.memory}});
  for (const PlannedLayout& layout : plan.too_large) json["too_large"].push_back(json_of(layout));
  json["choices"] = plan.remarks;
  return json;
}

}  // namespace adjoin::plan
