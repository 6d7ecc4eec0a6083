#include "adjoin/lab/svg.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "adjoin/base/utf8.hpp"

namespace adjoin::lab {
namespace {

constexpr const char* kPalette[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#c85a00", "#0f8a99",
                                    "#c2459f", "#7f8000", "#8c564b", "#393b79", "#637939", "#7b4173",
                                    "#3182bd", "#843c39", "#8c6d31", "#555555"};
static_assert(std::size(kPalette) == Svg::kColours);
constexpr double kTitleX = 24, kTitleY = 24;

}  // namespace

std::string escaped_markup(std::string_view text) {
  constexpr std::pair<char, const char*> kEntities[] = {{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}};
  std::string safe;
  for (const char c : printable(text)) {
    const auto* entity = std::ranges::find(kEntities, c, &std::pair<char, const char*>::first);
    entity == std::end(kEntities) ? safe += c : safe += entity->second;
  }
  return safe;
}

const char* Svg::colour_of(int rank) {
  return kPalette[rank % kColours];
}

void Svg::text(double x, double y, const char* anchor, const std::string& words, const std::string& style) {
  out_ << "<text x=\"" << x << "\" y=\"" << y << "\" text-anchor=\"" << anchor << "\" " << style << ">"
       << escaped_markup(words) << "</text>\n";
}

void Svg::line(double x1, double y1, double x2, double y2, const std::string& style) {
  out_ << "<line x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2 << "\" " << style << "/>\n";
}

void Svg::circle(double x, double y, double radius, const std::string& style) {
  out_ << "<circle cx=\"" << x << "\" cy=\"" << y << "\" r=\"" << radius << "\" " << style << "/>\n";
}

void Svg::path(const std::string& data, const std::string& style) {
  out_ << "<path d=\"" << data << "\" " << style << "/>\n";
}

void Svg::box(double x, double y, double width, double height, const std::string& style) {
  out_ << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\"" << height << "\" " << style
       << "/>\n";
}

void Svg::begin_group(const std::string& tip) {
  out_ << "<g><title>" << escaped_markup(tip) << "</title>";
}

void Svg::end_group() {
  out_ << "</g>\n";
}

std::string Svg::picture(double width, double height, const std::string& title, const std::string& definitions) const {
  std::ostringstream whole;
  whole << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << " " << height << "\" width=\""
        << width << "\" height=\"" << height << "\" font-family=\"sans-serif\" font-size=\"12\">\n";
  if (!definitions.empty()) whole << "<defs>\n" << definitions << "</defs>\n";
  whole << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"" << kTitleX << "\" y=\"" << kTitleY
        << "\" font-size=\"15\" font-weight=\"bold\">" << escaped_markup(title) << "</text>\n"
        << out_.str() << "</svg>\n";
  return whole.str();
}

std::string Svg::in_page(double width, double height, const std::string& label, const std::string& attributes) const {
  std::ostringstream whole;
  whole << "<svg viewBox=\"0 0 " << width << " " << height << "\" role=\"img\" aria-label=\"" << escaped_markup(label)
        << "\" " << attributes << ">\n"
        << out_.str() << "</svg>\n";
  return whole.str();
}

}  // namespace adjoin::lab
