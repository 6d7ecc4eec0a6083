#include "adjoin/lab/diagram.hpp"

#include <algorithm>
#include <limits>
#include <sstream>

#include "adjoin/lab/svg.hpp"

namespace adjoin::lab {

namespace {

constexpr double kLeft = 76, kTop = 58, kRight = 36, kBottom = 44, kShortestArrow = 90;

/// The shortest length along the axis that an arrow spans, which must be long enough for its label.
double shortest(const Diagram& diagram) {
  double least = std::numeric_limits<double>::infinity();
  for (const Arrow& arrow : diagram.arrows)
    if (arrow.end > arrow.begin) least = std::min(least, arrow.end - arrow.begin);
  return least;
}

class Drawing {
 public:
  explicit Drawing(const Diagram& diagram)
      : diagram_(diagram),
        end_(diagram.ticks.empty() || diagram.ticks.back().at <= 0 ? 1 : diagram.ticks.back().at),
        row_(std::clamp(640.0 / diagram.ranks, 12.0, 64.0)),
        width_(std::clamp(kShortestArrow * end_ / shortest(diagram), 640.0, 3200.0)) {}

  std::string svg() {
    draw_axis();
    draw_ranks();
    for (const Arrow& arrow : diagram_.arrows) draw(arrow);
    if (diagram_.ranks <= kMostLabelledRanks)
      for (const Arrow& arrow : diagram_.arrows) draw_label(arrow);
    return svg_.picture(kLeft + width_ + kRight, bottom() + kBottom, diagram_.title, heads());
  }

 private:
  double x(double at) const { return kLeft + width_ * at / end_; }
  double y(int rank) const { return kTop + row_ * (rank + 0.5); }
  double bottom() const { return kTop + row_ * diagram_.ranks; }

  std::string heads() const {
    std::ostringstream markers;
    for (int i = 0; i < std::min(diagram_.ranks, Svg::kColours); ++i)
      markers << "<marker id=\"head" << i << "\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" "
              << "markerHeight=\"7\" orient=\"auto\"><path d=\"M0,1 L10,5 L0,9 z\" fill=\"" << Svg::colour_of(i)
              << "\"/></marker>\n";
    return markers.str();
  }

  void draw_axis() {
    for (const Diagram::Tick& tick : diagram_.ticks) {
      svg_.line(x(tick.at), kTop, x(tick.at), bottom(), "stroke=\"#ddd\" stroke-dasharray=\"3 4\"");
      svg_.text(x(tick.at + tick.label_shift), bottom() + 16, "middle", tick.label, "fill=\"#555\"");
    }
    svg_.text(kLeft + width_ / 2, bottom() + 34, "middle", diagram_.axis, "fill=\"#555\"");
  }

  void draw_ranks() {
    for (int rank = 0; rank < diagram_.ranks; ++rank) {
      svg_.line(kLeft, y(rank), kLeft + width_, y(rank), "stroke=\"#999\"");
      svg_.text(kLeft - 10, y(rank) + 4, "end", "rank " + std::to_string(rank), row_ < 14 ? "font-size=\"9\"" : "");
    }
  }

  void draw(const Arrow& arrow) {
    svg_.begin_group(arrow.tip);
    svg_.line(x(arrow.begin), y(arrow.from), x(arrow.end), y(arrow.to),
              "stroke=\"" + std::string(Svg::colour_of(arrow.from)) + "\" stroke-width=\"1.6\" marker-end=\"url(#head" +
                  std::to_string(arrow.from % Svg::kColours) + ")\"");
    svg_.end_group();
  }

  /// Placed nearer to the sender than to the middle, where arrows of a step cross.
  void draw_label(const Arrow& arrow) {
    constexpr double kAlong = 0.3;
    const double at_x = x(arrow.begin) + kAlong * (x(arrow.end) - x(arrow.begin));
    const double at_y = y(arrow.from) + kAlong * (y(arrow.to) - y(arrow.from));
    const std::string ink = "font-size=\"10\" fill=\"" + std::string(Svg::colour_of(arrow.from)) + "\"";
    svg_.text(at_x, at_y + 3.5, "middle", arrow.label,
              "font-size=\"10\" fill=\"white\" stroke=\"white\" stroke-width=\"4\"");
    svg_.text(at_x, at_y + 3.5, "middle", arrow.label, ink);
  }

  const Diagram& diagram_;
  const double end_, row_, width_;
  Svg svg_;
};

}  // namespace

std::string svg_of(const Diagram& diagram) {
  return Drawing(diagram).svg();
}

}  // namespace adjoin::lab
