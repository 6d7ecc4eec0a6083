#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "adjoin/base/text.hpp"
#include "adjoin/lab/svg.hpp"
#include "adjoin/report/pictures.hpp"

namespace adjoin::report {
namespace {

constexpr double kPageWidth = 440, kBarLeft = 62, kBarWidth = 250, kTextLeft = kBarLeft + kBarWidth + 8;
constexpr double kBarRow = 26, kBarHeight = 18, kLegendRow = 22, kLetterWidth = 6.6;

struct Segment {
  double length = 0;
  std::string style, tip;
};

struct Bar {
  std::string label, text;
  std::vector<Segment> segments{};
  double mark = 0;  // position of a mark across the bar; 0: none
  std::string mark_tip{};
};

struct LegendEntry {
  std::string style, words;
};

/// Draws bars below each other and below a legend; the longest bar fills the available width.
std::string draw_bars(const std::vector<Bar>& bars, const std::vector<LegendEntry>& legend, const std::string& label) {
  lab::Svg svg;
  double longest = 0;
  for (const Bar& bar : bars) {
    double length = 0;
    for (const Segment& segment : bar.segments) length += segment.length;
    longest = std::max({longest, length, bar.mark});
  }
  double at = 4, top = 0;
  for (const LegendEntry& entry : legend) {
    const double width = 22 + kLetterWidth * static_cast<double>(entry.words.size());
    if (at > 4 && at + width > kPageWidth) at = 4, top += kLegendRow;
    svg.box(at, top + 4, 12, 12, entry.style);
    svg.text(at + 17, top + 14, "start", entry.words);
    at += width + 12;
  }
  top += kLegendRow + 4;
  for (const Bar& bar : bars) {
    svg.text(kBarLeft - 8, top + 13, "end", bar.label);
    double x = kBarLeft;
    for (const Segment& segment : bar.segments) {
      const double width = longest > 0 ? kBarWidth * segment.length / longest : 0;
      svg.begin_group(segment.tip);
      svg.box(x, top, width, kBarHeight, segment.style);
      svg.end_group();
      x += width;
    }
    if (bar.mark > 0) {
      const double place = kBarLeft + kBarWidth * bar.mark / longest;
      svg.begin_group(bar.mark_tip);
      svg.box(place - 1.5, top - 3, 3, kBarHeight + 6, "class=\"mark-of-plan\"");
      svg.end_group();
    }
    svg.text(kTextLeft, top + 13, "start", bar.text);
    top += kBarRow;
  }
  return svg.in_page(kPageWidth, top, label, "class=\"bars\"");
}

/// The objects of summary.json's "ranks", at most kMostBars.
std::vector<const nlohmann::ordered_json*> ranks_of(const Run& run) {
  std::vector<const nlohmann::ordered_json*> ranks;
  const nlohmann::ordered_json& all = run.fact("ranks");
  if (!all.is_array()) return ranks;
  for (const auto& rank : all)
    if (rank.is_object() && ranks.size() < kMostBars) ranks.push_back(&rank);
  return ranks;
}

std::string name_of_rank(const nlohmann::ordered_json& rank) {
  return "rank " + std::to_string(static_cast<int64_t>(number_of(rank, "rank").value_or(0)));
}

struct Kind {
  const char *key, *words, *style;
};

constexpr Kind kKinds[] = {{"computing_seconds", "computing", "class=\"computing\""},
                           {"waiting_seconds", "waiting", "class=\"waiting\""},
                           {"communicating_seconds", "communicating", "class=\"communicating\""},
                           {"data_seconds", "reading data", "class=\"reading\""}};

}  // namespace

std::string draw_times(const Run& run) {
  std::vector<Bar> bars;
  for (const auto* rank : ranks_of(run)) {
    double all = 0;
    for (const Kind& kind : kKinds) all += number_of(*rank, kind.key).value_or(0);
    if (all <= 0) continue;
    Bar bar{.label = name_of_rank(*rank), .text = ""};
    for (const Kind& kind : kKinds) {
      const double seconds = number_of(*rank, kind.key).value_or(0);
      bar.segments.push_back({seconds / all, kind.style,
                              bar.label + ": " + kind.words + " " + text_of_seconds(seconds) + ", " +
                                  fixed(100 * seconds / all, 1) + " %"});
    }
    bar.text = fixed(100 * bar.segments[0].length, 0) + " % computing";
    if (const auto hidden = number_of(*rank, "hidden_seconds"); hidden && *hidden > 0)
      bar.segments[2].tip += "; " + text_of_seconds(*hidden) + " more hidden behind computing";
    bars.push_back(std::move(bar));
  }
  std::vector<LegendEntry> legend;
  for (const Kind& kind : kKinds) legend.push_back({kind.style, kind.words});
  return bars.empty() ? "" : draw_bars(bars, legend, "shares of each rank's time in " + run.name);
}

std::string bytes_text(double bytes) {
  constexpr std::pair<double, const char*> kUnits[] = {{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}};
  for (const auto& [size, unit] : kUnits)
    if (bytes >= size) return fixed(bytes / size, 1) + " " + unit;
  return fixed(bytes, 0) + " bytes";
}

std::string draw_memory(const Run& run, const std::vector<RankMemory>& plan) {
  std::vector<Bar> bars;
  for (const auto* rank : ranks_of(run)) {
    const auto peak = number_of(*rank, "peak_memory_bytes");
    if (!peak) continue;
    Bar bar{.label = name_of_rank(*rank), .text = bytes_text(*peak)};
    bar.segments.push_back({*peak, "class=\"measured\"", bar.label + ": at most " + bytes_text(*peak) + " of tensors"});
    for (const RankMemory& planned : plan)
      if (bar.label == "rank " + std::to_string(planned.rank)) {
        bar.mark = static_cast<double>(planned.highest);
        bar.mark_tip =
            bar.label + ": planned " + bytes_text(bar.mark) + " of a step" +
            (planned.checkpoint_copies > 0 ? ", and " + bytes_text(static_cast<double>(planned.checkpoint_copies)) +
                                                 " more while a checkpoint is written"
                                           : "");
        const auto percent = static_cast<int>(std::lround(100 * (*peak / bar.mark - 1)));
        bar.text += std::string(percent > 0 ? " (+" : " (") + std::to_string(percent) + " %)";
      }
    bars.push_back(std::move(bar));
  }
  std::vector<LegendEntry> legend{{"class=\"measured\"", "most of a rank's tensors"}};
  if (!plan.empty()) legend.push_back({"class=\"mark-of-plan\"", "planned for a step (difference)"});
  return bars.empty() ? "" : draw_bars(bars, legend, "memory of each rank in " + run.name);
}

}  // namespace adjoin::report
