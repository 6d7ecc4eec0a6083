#pragma once

#include <sstream>
#include <string>

namespace adjoin::lab {

/// A picture that is being drawn as SVG, on white, so that it reads on light pages and on dark ones.
class Svg {
 public:
  /// Sixteen colours that keep apart on white; ranks beyond share them.
  static constexpr int kColours = 16;
  static const char* colour_of(int rank);

  void text(double x, double y, const char* anchor, const std::string& words, const std::string& style = "");
  void line(double x1, double y1, double x2, double y2, const std::string& style);
  void box(double x, double y, double width, double height, const std::string& style);
  /// What is drawn up to `end_group` shows `tip` to a pointer that rests on it.
  void begin_group(const std::string& tip);
  void end_group();

  /// The picture under its title. `definitions` are what styles refer to.
  std::string picture(double width, double height, const std::string& title, const std::string& definitions = "") const;

 private:
  std::ostringstream out_;
};

}  // namespace adjoin::lab
