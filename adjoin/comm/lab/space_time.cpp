#include "adjoin/comm/lab/space_time.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <sstream>

namespace adjoin::lab {

namespace {

constexpr const char* kPalette[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#c85a00", "#0f8a99",
                                    "#c2459f", "#7f8000", "#8c564b", "#393b79", "#637939", "#7b4173",
                                    "#3182bd", "#843c39", "#8c6d31", "#555555"};
constexpr int kColours = static_cast<int>(std::size(kPalette));
constexpr double kLeft = 76, kTop = 58, kRight = 36, kBottom = 44, kShortestArrow = 90;

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '&')
      safe += "&amp;";
    else
      safe += c;
  }
  return safe;
}

/// The shortest way along the axis that an arrow goes, which must be long enough for its label.
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
    const double full_width = kLeft + width_ + kRight, full_height = bottom() + kBottom;
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << full_width << " " << full_height
         << "\" width=\"" << full_width << "\" height=\"" << full_height
         << "\" font-family=\"sans-serif\" font-size=\"12\">\n<defs>\n";
    for (int i = 0; i < std::min(diagram_.ranks, kColours); ++i)
      out_ << "<marker id=\"head" << i << "\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" "
           << "markerHeight=\"7\" orient=\"auto\"><path d=\"M0,1 L10,5 L0,9 z\" fill=\"" << kPalette[i]
           << "\"/></marker>\n";
    out_ << "</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
    text(kLeft, 24, "start", diagram_.title, "font-size=\"15\" font-weight=\"bold\"");
    draw_axis();
    draw_ranks();
    for (const Arrow& arrow : diagram_.arrows) draw(arrow);
    if (diagram_.ranks <= kMostLabelledRanks)
      for (const Arrow& arrow : diagram_.arrows) draw_label(arrow);
    out_ << "</svg>\n";
    return out_.str();
  }

 private:
  double x(double at) const { return kLeft + width_ * at / end_; }
  double y(int rank) const { return kTop + row_ * (rank + 0.5); }
  double bottom() const { return kTop + row_ * diagram_.ranks; }

  void text(double at_x, double at_y, const char* anchor, const std::string& words, const char* style = "") {
    out_ << "<text x=\"" << at_x << "\" y=\"" << at_y << "\" text-anchor=\"" << anchor << "\" " << style << ">"
         << escaped(words) << "</text>\n";
  }
  void line(double x1, double y1, double x2, double y2, const std::string& style) {
    out_ << "<line x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2 << "\" " << style << "/>\n";
  }

  void draw_axis() {
    for (const Diagram::Tick& tick : diagram_.ticks) {
      line(x(tick.at), kTop, x(tick.at), bottom(), "stroke=\"#ddd\" stroke-dasharray=\"3 4\"");
      text(x(tick.at + tick.label_shift), bottom() + 16, "middle", tick.label, "fill=\"#555\"");
    }
    text(kLeft + width_ / 2, bottom() + 34, "middle", diagram_.axis, "fill=\"#555\"");
  }

  void draw_ranks() {
    for (int rank = 0; rank < diagram_.ranks; ++rank) {
      line(kLeft, y(rank), kLeft + width_, y(rank), "stroke=\"#999\"");
      text(kLeft - 10, y(rank) + 4, "end", "rank " + std::to_string(rank), row_ < 14 ? "font-size=\"9\"" : "");
    }
  }

  void draw(const Arrow& arrow) {
    const int colour = arrow.from % kColours;
    out_ << "<g><title>" << escaped(arrow.tip) << "</title>";
    line(x(arrow.begin), y(arrow.from), x(arrow.end), y(arrow.to),
         "stroke=\"" + std::string(kPalette[colour]) + "\" stroke-width=\"1.6\" marker-end=\"url(#head" +
             std::to_string(colour) + ")\"");
    out_ << "</g>\n";
  }

  /// Nearer to the sender than to the middle, where arrows of a step cross.
  void draw_label(const Arrow& arrow) {
    constexpr double kAlong = 0.3;
    const double at_x = x(arrow.begin) + kAlong * (x(arrow.end) - x(arrow.begin));
    const double at_y = y(arrow.from) + kAlong * (y(arrow.to) - y(arrow.from));
    const std::string ink = "font-size=\"10\" fill=\"" + std::string(kPalette[arrow.from % kColours]) + "\"";
    text(at_x, at_y + 3.5, "middle", arrow.label,
         "font-size=\"10\" fill=\"white\" stroke=\"white\" stroke-width=\"4\"");
    text(at_x, at_y + 3.5, "middle", arrow.label, ink.c_str());
  }

  const Diagram& diagram_;
  const double end_, row_, width_;
  std::ostringstream out_;
};

}  // namespace

std::string svg_of(const Diagram& diagram) {
  return Drawing(diagram).svg();
}

}  // namespace adjoin::lab
