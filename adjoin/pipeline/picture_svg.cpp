#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/lab/svg.hpp"
#include "adjoin/pipeline/picture.hpp"

namespace adjoin::pipeline {
namespace {

constexpr double kLeft = 76, kTop = 44, kRight = 24, kRow = 28, kGap = 4, kLegend = 28;
constexpr double kLeastWidth = 640, kMostWidth = 4000, kBox = 22;                 // kBox: width of the shortest action
constexpr const char* kColours[] = {"#9ecae1", "#a1d99b", "#fdd0a2", "#dadaeb"};  // one for each kind
constexpr const char* kNames[] = {"forward", "backward", "input gradient", "weight gradient"};

/// Throws: InvalidArgument for more actions than can be drawn
void check_count(const auto& ranks) {
  int64_t count = 0;
  for (const auto& actions : ranks) count += std::ssize(actions);
  require(count <= kMostDrawn, [&] {
    return "an SVG picture: expected at most " + grouped(kMostDrawn) + " actions, got " + grouped(count);
  });
}

class SvgPicture {
 public:
  /// `unit` is written after each time.
  explicit SvgPicture(const std::vector<std::vector<TimedAction>>& ranks, std::string unit = "")
      : ranks_(ranks), unit_(std::move(unit)) {
    double shortest = std::numeric_limits<double>::infinity();
    for (const auto& actions : ranks)
      for (const TimedAction& timed : actions) {
        if (timed.end > timed.begin) shortest = std::min(shortest, timed.end - timed.begin);
        makespan_ = std::max(makespan_, timed.end);
        has_several_stages_ = has_several_stages_ || timed.action.stage != actions.front().action.stage;
      }
    if (makespan_ > 0) width_ = std::clamp(kBox * (makespan_ / shortest), kLeastWidth, kMostWidth);
  }

  std::string svg(const std::string& title) {
    draw();
    return svg_.picture(width(), bottom(), title);
  }
  std::string in_page(const std::string& label) {
    draw();
    return svg_.in_page(width(), bottom(), label, "class=\"schedule\" width=\"" + number(width()) + "\"");
  }

 private:
  double width() const { return kLeft + width_ + kRight; }
  double bottom() const { return kTop + kRow * static_cast<double>(ranks_.size()) + kLegend; }
  double x(double time) const { return kLeft + (makespan_ > 0 ? width_ * (time / makespan_) : 0); }

  void draw() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) draw_rank(static_cast<int>(rank));
    draw_legend(bottom() - kLegend / 2);
  }

  void draw_rank(int rank) {
    const double top = kTop + kRow * rank, height = kRow - kGap;
    svg_.text(kLeft - 12, top + height / 2 + 4, "end", "rank " + std::to_string(rank));
    svg_.box(kLeft, top, width_, height, "fill=\"#f4f4f4\"");
    for (const TimedAction& timed : ranks_[static_cast<size_t>(rank)]) draw(timed, top);
  }

  void draw(const TimedAction& timed, double top) {
    const auto& [action, begin, end] = timed;
    const double width = x(end) - x(begin);
    if (width <= 0) return;
    const auto kind = static_cast<size_t>(action.kind);
    seen_[kind] = true;
    svg_.begin_group(text_of(action) + ": " + kNames[kind] + ", stage " + std::to_string(action.stage) +
                     ", micro-batch " + std::to_string(action.micro_batch) + ", from " + number(begin) + " to " +
                     number(end) + unit_);
    svg_.box(x(begin), top, width, kRow - kGap,
             std::string("fill=\"") + kColours[kind] + "\" stroke=\"white\" stroke-width=\"1\"");
    const std::string label = has_several_stages_ ? text_of(action) : std::to_string(action.micro_batch);
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
    return {text, std::to_chars(text, text + sizeof text, value, std::chars_format::general, 6).ptr};
  }

  const std::vector<std::vector<TimedAction>>& ranks_;
  const std::string unit_;
  double makespan_ = 0;
  double width_ = kLeastWidth;       // width of the time axis
  bool has_several_stages_ = false;  // whether a rank has several
  bool seen_[4] = {};                // kinds that occur in the picture
  lab::Svg svg_;
};

}  // namespace

std::string svg_of(const Schedule& schedule, const Costs& costs, const Timeline& timeline, const std::string& title) {
  check_count(schedule.actions);
  std::vector<std::vector<TimedAction>> ranks(schedule.actions.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (size_t i = 0; i < schedule.actions[rank].size(); ++i) {
      const Action& action = schedule.actions[rank][i];
      const double begin = timeline.begins[rank][i];
      ranks[rank].push_back({action, begin, begin + costs.stages[static_cast<size_t>(action.stage)].of(action.kind)});
    }
  return SvgPicture(ranks).svg(title);
}

std::string page_svg_of(const std::vector<std::vector<TimedAction>>& ranks, const std::string& label) {
  check_count(ranks);
  return SvgPicture(ranks, " s").in_page(label);
}

}  // namespace adjoin::pipeline
