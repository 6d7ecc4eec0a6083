#pragma once

#include <sstream>
#include <string>
#include <string_view>

namespace adjoin::lab {

/// Text as it stands in HTML or SVG, between tags or in the quotes of an attribute: nothing in it is markup. Control characters and
/// bytes that are not UTF-8 are shown as in `printable`.
std::string escaped_markup(std::string_view text);

/// A picture that is being drawn as SVG.
class Svg {
 public:
  /// Sixteen colours that keep apart on white; ranks beyond share them.
  static constexpr int kColours = 16;
  static const char* colour_of(int rank);

  void text(double x, double y, const char* anchor, const std::string& words, const std::string& style = "");
  void line(double x1, double y1, double x2, double y2, const std::string& style);
  void circle(double x, double y, double radius, const std::string& style);
  /// `data`: "M0 0L10 5…", as SVG's path has it.
  void path(const std::string& data, const std::string& style);
  void box(double x, double y, double width, double height, const std::string& style);
  /// What is drawn up to `end_group` shows `tip` to a pointer that rests on it.
  void begin_group(const std::string& tip);
  void end_group();

  /// The picture under its title, as a file: on white, so that it reads on light pages and on dark ones. `definitions` are what
  /// styles refer to.
  std::string picture(double width, double height, const std::string& title, const std::string& definitions = "") const;
  /// The picture as a part of an HTML page, which has the title, decides the colours of text and how wide it is. `label` says what
  /// is seen; `attributes` are more of the element's.
  std::string in_page(double width, double height, const std::string& label, const std::string& attributes = "") const;

 private:
  std::ostringstream out_;
};

}  // namespace adjoin::lab
