#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace adjoin::data {

/// A regular expression that is a list of literal texts, of which the first one that fits counts: `<tool>|ab\.c`.
class LiteralPattern {
 public:
  /// None where the expression is not such a list.
  static std::optional<LiteralPattern> read(std::string_view expression);

  /// The expression for these texts, the longest first, each escaped as Python's re.escape does.
  static std::string write(std::vector<std::string> texts);

  /// The end of a literal that begins at `begin`, or else where the next one begins, or the end of the text.
  size_t end_of(std::string_view text, size_t begin) const;

 private:
  size_t length_at(std::string_view text, size_t at) const;

  std::map<char, std::vector<std::string>> texts_;  // by their first byte
};

}  // namespace adjoin::data
