#include "bench/picture.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <vector>

#include "adjoin/lab/measure/sizes.hpp"

namespace bench {

namespace {

using adjoin::Collective;

constexpr double kPanelWidth = 420, kPanelHeight = 260, kLeft = 70, kTop = 60, kRight = 20, kBottom = 50;
constexpr double kPlotWidth = kPanelWidth - kLeft - kRight, kPlotHeight = kPanelHeight - 30 - kBottom;

struct Line {
  const char *label, *style;
  double Row::*time;
};

constexpr Line kLines[] = {
    {"copy bandwidth", "stroke:#888;stroke-dasharray:5 4", &Row::limit_us},
    {"MPI's own call", "stroke:#d95f02", &Row::mpi_us},
    {"adjoin on MPI", "stroke:#7570b3;stroke-dasharray:2 3", &Row::mpi_backend_us},
    {"adjoin on threads", "stroke:#1b9e77", &Row::threads_us},
};

/// What the axes show, as powers: of 2 for bytes, of 10 for microseconds.
struct Range {
  double low, high;
  double part(double x) const { return (x - low) / std::max(high - low, 1e-9); }
};

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", x);
  return text;
}

std::string text_at(double x, double y, const std::string& anchor, const std::string& text) {
  return "<text x='" + number(x) + "' y='" + number(y) + "' text-anchor='" + anchor + "'>" + text + "</text>\n";
}

std::string line_between(double x1, double y1, double x2, double y2, const std::string& style) {
  return "<line x1='" + number(x1) + "' y1='" + number(y1) + "' x2='" + number(x2) + "' y2='" + number(y2) +
         "' style='" + style + "'/>\n";
}

std::string text_of_power(int power) {
  constexpr const char* texts[] = {"1 ns", "10 ns", "100 ns", "1 µs", "10 µs", "100 µs",
                                   "1 ms", "10 ms", "100 ms", "1 s",  "10 s"};
  return power >= -3 && power <= 7 ? texts[power + 3] : "1e" + std::to_string(power) + " µs";
}

class Panel {
 public:
  Panel(double x, double y, Range sizes, Range times) : x_(x), y_(y), sizes_(sizes), times_(times) {}

  std::string axes(const std::string& title) const {
    std::string svg =
        "<text x='" + number(x_) + "' y='" + number(y_ - 8) + "' font-weight='bold'>" + title + "</text>\n";
    for (int power = static_cast<int>(times_.low); power <= static_cast<int>(times_.high); ++power) {
      svg += line_between(x_, at_time(power), x_ + kPlotWidth, at_time(power), "stroke:#ddd");
      svg += text_at(x_ - 6, at_time(power) + 4, "end", text_of_power(power));
    }
    for (int power = static_cast<int>(std::ceil(sizes_.low)); power <= static_cast<int>(sizes_.high); power += 4) {
      svg += line_between(at_size(power), y_, at_size(power), y_ + kPlotHeight, "stroke:#ddd");
      svg +=
          text_at(at_size(power), y_ + kPlotHeight + 16, "middle", adjoin::measure::text_of_bytes(int64_t{1} << power));
    }
    return svg;
  }

  std::string curve(std::span<const Row> rows, const Line& line) const {
    std::string points;
    for (const Row& row : rows)
      points += number(at_size(std::log2(row.bytes))) + "," + number(at_time(std::log10(row.*line.time))) + " ";
    return "<polyline points='" + points + "' style='fill:none;stroke-width:2;" + line.style + "'/>\n";
  }

 private:
  double at_size(double power) const { return x_ + sizes_.part(power) * kPlotWidth; }
  double at_time(double power) const { return y_ + (1 - times_.part(power)) * kPlotHeight; }

  double x_, y_;
  Range sizes_, times_;
};

Range range_of_sizes(std::span<const Row> rows) {
  const auto [low, high] =
      std::minmax_element(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.bytes < b.bytes; });
  return {std::log2(low->bytes), std::log2(high->bytes)};
}

Range range_of_times(std::span<const Row> rows) {
  Range range{1e9, -1e9};
  for (const Row& row : rows)
    for (const Line& line : kLines) {
      range.low = std::min(range.low, std::floor(std::log10(row.*line.time)));
      range.high = std::max(range.high, std::ceil(std::log10(row.*line.time)));
    }
  return range;
}

std::string legend() {
  std::string svg;
  double x = kLeft;
  for (const Line& line : kLines) {
    svg += line_between(x, 20, x + 30, 20, std::string("stroke-width:2;") + line.style);
    svg += text_at(x + 36, 24, "start", line.label);
    x += 170;
  }
  return svg;
}

std::vector<Row> rows_of(std::span<const Row> rows, Collective collective, int ranks) {
  std::vector<Row> some;
  for (const Row& row : rows)
    if (row.collective == collective && row.ranks == ranks) some.push_back(row);
  return some;
}

}  // namespace

std::string picture_of(std::span<const Row> all) {
  std::vector<Row> rows;
  std::set<Collective> collectives;
  std::set<int> worlds;
  for (const Row& row : all) {
    if (row.collective == Collective::barrier) continue;
    rows.push_back(row);
    collectives.insert(row.collective);
    worlds.insert(row.ranks);
  }
  std::string panels;
  double y = kTop;
  for (const Collective collective : collectives) {
    double x = kLeft;
    for (const int ranks : worlds) {
      const Panel panel(x, y, range_of_sizes(rows), range_of_times(rows));
      panels += panel.axes(std::string(name(collective)) + " on " + std::to_string(ranks) + " ranks");
      for (const Line& line : kLines) panels += panel.curve(rows_of(rows, collective, ranks), line);
      x += kPanelWidth;
    }
    y += kPanelHeight;
  }
  const double width = std::max(kLeft + kPanelWidth * static_cast<double>(worlds.size()), 760.0);
  return "<svg xmlns='http://www.w3.org/2000/svg' width='" + number(width) + "' height='" + number(y) +
         "' font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n" + legend() +
         panels + "</svg>\n";
}

}  // namespace bench
