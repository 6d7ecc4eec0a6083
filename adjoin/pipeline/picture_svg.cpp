#include <algorithm>
#include <cstdio>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/lab/svg.hpp"
#include "adjoin/pipeline/picture.hpp"

namespace adjoin::pipeline {
namespace {

constexpr double kLeft = 76, kTop = 44, kRight = 24, kRow = 28, kGap = 4, kLegend = 28;
constexpr double kLeastWidth = 640, kMostWidth = 4000, kBox = 22;                 // a box of the shortest action
constexpr const char* kColours[] = {"#9ecae1", "#a1d99b", "#fdd0a2", "#dadaeb"};  // of each kind
constexpr const char* kNames[] = {"forward", "backward", "input gradient", "weight gradient"};

class SvgPicture {
 public:
  SvgPicture(const Schedule& schedule, const Costs& costs, const Timeline& timeline)
      : schedule_(schedule), costs_(costs), timeline_(timeline) {
    double shortest = timeline.makespan;
    for (const auto& actions : schedule.actions)
      for (const Action& action : actions)
        if (const double cost = cost_of(action); cost > 0) shortest = std::min(shortest, cost);
    if (timeline.makespan > 0) width_ = std::clamp(kBox * (timeline.makespan / shortest), kLeastWidth, kMostWidth);
  }

  std::string svg(const std::string& title) {
    for (int rank = 0; rank < schedule_.ranks(); ++rank) draw_rank(rank);
    const double bottom = kTop + kRow * schedule_.ranks() + kLegend;
    draw_legend(bottom - kLegend / 2);
    return svg_.picture(kLeft + width_ + kRight, bottom, title);
  }

 private:
  double cost_of(const Action& action) const {
    return costs_.stages[static_cast<size_t>(action.stage)].of(action.kind);
  }
  double x(double time) const { return kLeft + (timeline_.makespan > 0 ? width_ * (time / timeline_.makespan) : 0); }

  void draw_rank(int rank) {
    const double top = kTop + kRow * rank, height = kRow - kGap;
    svg_.text(kLeft - 12, top + height / 2 + 4, "end", "rank " + std::to_string(rank));
    svg_.box(kLeft, top, width_, height, "fill=\"#f4f4f4\"");
    const auto& actions = schedule_.actions[static_cast<size_t>(rank)];
    for (size_t i = 0; i < actions.size(); ++i) draw(actions[i], timeline_.begins[static_cast<size_t>(rank)][i], top);
  }

  void draw(const Action& action, double begin, double top) {
    const double end = begin + cost_of(action), width = x(end) - x(begin);
    if (width <= 0) return;
    const auto kind = static_cast<size_t>(action.kind);
    seen_[kind] = true;
    svg_.begin_group(text_of(action) + ": " + kNames[kind] + ", stage " + std::to_string(action.stage) +
                     ", micro-batch " + std::to_string(action.micro_batch) + ", from " + number(begin) + " to " +
                     number(end));
    svg_.box(x(begin), top, width, kRow - kGap,
             std::string("fill=\"") + kColours[kind] + "\" stroke=\"white\" stroke-width=\"1\"");
    const bool has_stages = schedule_.stages > schedule_.ranks();
    const std::string label = has_stages ? text_of(action) : std::to_string(action.micro_batch);
    if (width >= 7.0 * static_cast<double>(label.size()))
      svg_.text((x(begin) + x(end)) / 2, top + (kRow - kGap) / 2 + 4, "middle", label, "font-size=\"11\"");
    svg_.end_group();
  }

  void draw_legend(double y) {
    double at = kLeft;
    for (size_t kind = 0; kind < std::size(kNames); ++kind) {
      if (!seen_[kind]) continue;
      svg_.box(at, y - 9, 12, 12, std::string("fill=\"") + kColours[kind] + "\"");
      svg_.text(at + 18, y + 1, "start", kNames[kind], "fill=\"#555\"");
      at += 18 + 7.0 * static_cast<double>(std::string_view(kNames[kind]).size()) + 18;
    }
  }

  static std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value);
    return text;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  const Timeline& timeline_;
  double width_ = kLeastWidth;  // of the time axis
  bool seen_[4] = {};           // kinds that are drawn
  lab::Svg svg_;
};

}  // namespace

std::string svg_of(const Schedule& schedule, const Costs& costs, const Timeline& timeline, const std::string& title) {
  int64_t count = 0;
  for (const auto& actions : schedule.actions) count += static_cast<int64_t>(actions.size());
  require(count <= kMostDrawn,
          [&] { return "an SVG picture of " + grouped(count) + " actions, expected at most " + grouped(kMostDrawn); });
  return SvgPicture(schedule, costs, timeline).svg(title);
}

}  // namespace adjoin::pipeline
