#include "adjoin/report/scale.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace adjoin::report {
namespace {

constexpr double kLogarithmicFrom = 1000, kFromMiddle = 20;  // greatest / least, and greatest / middle
constexpr double kMargin = 0.04;                             // of the axis, at both ends
constexpr double kLeastHalf = 2e-3;  // of the greatest number: marks with four digits still differ
constexpr int kMarks = 5;

/// 1, 2 or 5 times a power of ten, so that about kMarks of them fill `length`.
double round_step(double length) {
  const double step = length / kMarks, power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (step <= factor * power * 1.0001) return factor * power;
  return 10 * power;
}

void add_ticks(Scale& scale, double step) {
  for (double i = std::ceil(scale.low / step - 1e-9); i * step <= scale.high + 1e-9 * step; ++i)
    scale.ticks.push_back(i * step);
}

int part_of(double at, int parts) {
  return std::clamp(static_cast<int>(at * parts), 0, parts - 1);
}

}  // namespace

double Scale::at(double number) const {
  const double length = is_logarithmic ? std::log(high / low) : high - low;
  return (is_logarithmic ? std::log(number / low) : number - low) / length;
}

Scale scale_of(double least, double middle, double most) {
  Scale scale{.low = least, .high = most};
  if (least > 0 && most / least >= kLogarithmicFrom && most / middle >= kFromMiddle) {
    scale.is_logarithmic = true;
    const double margin = std::pow(most / least, kMargin);
    scale.low /= margin, scale.high *= margin;
    const double first = std::ceil(std::log10(scale.low) - 1e-9), last = std::floor(std::log10(scale.high) + 1e-9);
    const double each = std::max(1.0, std::ceil((last - first) / kMarks));
    for (double power = first; power <= last; power += each) scale.ticks.push_back(std::pow(10, power));
    return scale;
  }
  const double half = std::max({(most - least) / 2, kLeastHalf * std::abs(most), 1e-300});
  const double center = least / 2 + most / 2;
  scale.low = center - half * (1 + 2 * kMargin), scale.high = center + half * (1 + 2 * kMargin);
  if (!std::isfinite(scale.high - scale.low)) return {.low = least, .high = most, .ticks = {least, most}};
  add_ticks(scale, round_step(scale.high - scale.low));
  return scale;
}

Scale scale_of_steps(int64_t first, int64_t last) {
  Scale scale{.low = static_cast<double>(first), .high = static_cast<double>(std::max(last, first + 1))};
  add_ticks(scale, std::max(1.0, round_step(scale.high - scale.low)));
  return scale;
}

std::string mark_text(double number) {
  constexpr std::pair<double, const char*> kUnits[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  const double size = std::abs(number);
  char text[32];
  for (const auto& [unit, letter] : kUnits)
    if (size >= unit && size < 1e15) {
      std::snprintf(text, sizeof text, "%.4g%s", number / unit, letter);
      return text;
    }
  std::snprintf(text, sizeof text, "%.4g", size < 1e-300 ? 0 : number);
  return text;
}

std::vector<size_t> extremes(const Series& series, const Scale& steps, int parts) {
  std::vector<size_t> kept;
  const size_t count = series.values.size();
  if (count <= 2 * static_cast<size_t>(parts)) {
    kept.resize(count);
    std::iota(kept.begin(), kept.end(), 0);
    return kept;
  }
  for (size_t begin = 0; begin < count;) {
    const int part = part_of(steps.at(static_cast<double>(series.steps[begin])), parts);
    size_t end = begin, least = begin, most = begin;
    for (; end < count && part_of(steps.at(static_cast<double>(series.steps[end])), parts) == part; ++end) {
      if (series.values[end] < series.values[least]) least = end;
      if (series.values[end] > series.values[most]) most = end;
    }
    for (const size_t place : {std::min(least, most), std::max(least, most)})
      if (kept.empty() || kept.back() < place) kept.push_back(place);
    begin = end;
  }
  if (!kept.empty() && kept.front() != 0) kept.insert(kept.begin(), 0);
  if (!kept.empty() && kept.back() != count - 1) kept.push_back(count - 1);
  return kept;
}

std::vector<std::pair<double, double>> means(const Series& series, const Scale& steps, int parts) {
  std::vector<std::pair<double, double>> result;
  for (size_t begin = 0; begin < series.values.size();) {
    const int part = part_of(steps.at(static_cast<double>(series.steps[begin])), parts);
    size_t end = begin;
    double sum = 0, sum_of_steps = 0;
    for (; end < series.values.size() && part_of(steps.at(static_cast<double>(series.steps[end])), parts) == part;
         ++end) {
      sum += series.values[end];
      sum_of_steps += static_cast<double>(series.steps[end]);
    }
    const auto count = static_cast<double>(end - begin);
    result.emplace_back(sum_of_steps / count, sum / count);
    begin = end;
  }
  return result;
}

}  // namespace adjoin::report
