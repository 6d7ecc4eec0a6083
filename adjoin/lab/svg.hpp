#pragma once

#include <sstream>
#include <string>
#include <string_view>

namespace adjoin::lab {

/// Text as it must be written in HTML or SVG, between tags or in a quoted attribute, so that nothing in it is markup. Control
/// characters and bytes that are not UTF-8 are shown as in `printable`.
std::string escaped_markup(std::string_view text);

/// Draws a picture as SVG.
class Svg {
 public:
  /// Sixteen colours that are distinguishable on white; further ranks use them again.
  static constexpr int kColours = 16;
  static const char* colour_of(int rank);

  void text(double x, double y, const char* anchor, const std::string& words, const std::string& style = "");
  void line(double x1, double y1, double x2, double y2, const std::string& style);
  void circle(double x, double y, double radius, const std::string& style);
  /// `data`: "M0 0L10 5…", in the syntax of SVG's path.
  void path(const std::string& data, const std::string& style);
  void box(double x, double y, double width, double height, const std::string& style);
  /// Everything drawn until `end_group` shows `tip` when a pointer rests on it.
  void begin_group(const std::string& tip);
  void end_group();

  /// The picture with its title, as a file: on white, so that it is readable on light and on dark pages. `definitions` are
  /// elements that styles refer to.
  std::string picture(double width, double height, const std::string& title, const std::string& definitions = "") const;
  /// The picture as part of an HTML page, which has the title and decides the colours of text and the width. `label` says what
  /// the picture shows; `attributes` are added to the element.
  std::string in_page(double width, double height, const std::string& label, const std::string& attributes = "") const;

 private:
  std::ostringstream out_;
};

}  // namespace adjoin::lab
