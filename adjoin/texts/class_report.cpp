#include "adjoin/texts/class_report.hpp"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "adjoin/base/utf8.hpp"

namespace adjoin::train {
namespace {

constexpr size_t kLongestName = 24;  // characters
using Row = std::vector<std::string>;

size_t characters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; }));
}

std::string shown_name(const std::string& name) {
  const std::string safe = printable(name);
  if (characters(safe) <= kLongestName) return safe;
  std::string cut;
  for (size_t at = 0, kept = 0; kept < kLongestName - 3; ++kept) {
    const auto length = static_cast<size_t>(std::max(1, decode_utf8(safe, at).length));
    cut += safe.substr(at, length);
    at += length;
  }
  return cut + "...";
}

std::string three_digits(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", number);
  return text;
}

/// Lines whose first column is aligned left and whose others are aligned right, separated by two spaces; "" if they are wider
/// than `columns`.
std::string aligned(const std::vector<Row>& rows, size_t columns) {
  std::vector<size_t> widths(rows.front().size());
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], characters(row[i]));
  size_t width = 0;
  for (const size_t column : widths) width += 2 + column;
  if (width > columns) return "";
  std::string text;
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - characters(row[i]), ' ');
      text += "  " + (i == 0 ? row[i] + space : space + row[i]);
    }
    text += '\n';
  }
  return text;
}

std::string f1_table(const data::ClassNames& classes, const ClassCounts& counts, size_t columns) {
  std::vector<Row> rows{{"class", "samples", "F1"}};
  for (int64_t c = 0; c < classes.size(); ++c)
    rows.push_back({shown_name(classes.name(c)), std::to_string(counts.of_class(c)), three_digits(counts.f1(c))});
  return aligned(rows, columns) + "  macro F1 " + three_digits(counts.macro_f1()) + "\n";
}

std::string confusion_matrix(const data::ClassNames& classes, const ClassCounts& counts, size_t columns) {
  std::vector<Row> rows{{"is \\ taken for"}};
  for (int64_t c = 0; c < classes.size(); ++c) rows.front().push_back(shown_name(classes.name(c)));
  for (int64_t actual = 0; actual < classes.size(); ++actual) {
    Row& row = rows.emplace_back(Row{shown_name(classes.name(actual))});
    for (int64_t taken = 0; taken < classes.size(); ++taken) row.push_back(std::to_string(counts.pair(actual, taken)));
  }
  return aligned(rows, columns);
}

}  // namespace

std::string class_report(const data::ClassNames& classes, const ClassCounts& counts, size_t columns) {
  const std::string matrix = counts.has_pairs() ? confusion_matrix(classes, counts, columns) : "";
  return f1_table(classes, counts, columns) + (matrix.empty() ? "" : "\n" + matrix);
}

}  // namespace adjoin::train
