#include "adjoin/report/chart.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "adjoin/base/text.hpp"
#include "adjoin/lab/svg.hpp"
#include "adjoin/report/scale.hpp"

namespace adjoin::report {
namespace {

constexpr double kWidth = 440, kHeight = 230, kLeft = 58, kRight = 12, kTop = 8, kBottom = 24;
constexpr int kColours = 8, kMeans = 100;
constexpr size_t kManyPoints = 200, kFewPoints = 60;

/// Draws one chart.
class ChartDrawing {
 public:
  ChartDrawing(const Chart& chart, const std::vector<Run>& runs, int parts)
      : chart_(chart), runs_(runs), parts_(parts) {
    int64_t first = std::numeric_limits<int64_t>::max(), last = 0;
    std::vector<double> values;
    for (const Curve& curve : chart.curves) {
      first = std::min(first, curve.series->steps.front());
      last = std::max(last, curve.series->steps.back());
      values.insert(values.end(), curve.series->values.begin(), curve.series->values.end());
    }
    const auto [least, most] = std::ranges::minmax(values);
    const auto middle = values.begin() + std::ssize(values) / 2;
    std::ranges::nth_element(values, middle);
    steps_ = scale_of_steps(first, last);
    values_ = scale_of(least, *middle, most);
  }

  DrawnChart drawn() {
    draw_axes();
    nlohmann::ordered_json curves = nlohmann::ordered_json::array();
    for (const Curve& curve : chart_.curves) curves.push_back(draw(curve));
    svg_.circle(0, 0, 4, "class=\"mark\" visibility=\"hidden\"");
    nlohmann::ordered_json data = {
        {"x", {kLeft, kWidth - kRight, steps_.low, steps_.high}},
        {"y", {kHeight - kBottom, kTop, values_.low, values_.high, values_.is_logarithmic ? 1 : 0}},
        {"curves", std::move(curves)}};
    return {svg_.in_page(kWidth, kHeight, chart_.title + " by step", "class=\"chart\""), std::move(data)};
  }

 private:
  double x(double step) const { return kLeft + (kWidth - kLeft - kRight) * steps_.at(step); }
  double y(double value) const { return kHeight - kBottom - (kHeight - kTop - kBottom) * values_.at(value); }

  void draw_axes() {
    for (const double tick : values_.ticks) {
      svg_.line(kLeft, y(tick), kWidth - kRight, y(tick), "class=\"grid\"");
      svg_.text(kLeft - 6, y(tick) + 4, "end", mark_text(tick));
    }
    for (const double tick : steps_.ticks) {
      svg_.line(x(tick), kHeight - kBottom, x(tick), kHeight - kBottom + 4, "class=\"grid\"");
      const bool is_last = x(tick) > kWidth - kRight - 16;
      svg_.text(is_last ? kWidth - 2 : x(tick), kHeight - 6, is_last ? "end" : "middle", mark_text(tick));
    }
  }

  /// The data of the curve for the script: its run, its steps (as differences, after the first) and its values.
  nlohmann::ordered_json draw(const Curve& curve) {
    const Series& series = *curve.series;
    const std::vector<size_t> places = extremes(series, steps_, parts_);
    const bool has_many = series.values.size() >= kManyPoints;
    std::vector<std::pair<double, double>> points;
    nlohmann::ordered_json steps = nlohmann::ordered_json::array(), values = nlohmann::ordered_json::array();
    int64_t before = 0;
    for (const size_t place : places) {
      points.emplace_back(static_cast<double>(series.steps[place]), series.values[place]);
      steps.push_back(series.steps[place] - std::exchange(before, series.steps[place]));
      values.push_back(series.values[place]);
    }
    svg_.path(path_of(points), "class=\"" + class_of_run(curve.run) + (has_many ? " raw\"" : " line\""));
    if (has_many) svg_.path(path_of(means(series, steps_, kMeans)), "class=\"" + class_of_run(curve.run) + " line\"");
    if (points.size() <= kFewPoints) draw_points(curve, points);
    return {{"run", curve.run}, {"steps", std::move(steps)}, {"values", std::move(values)}};
  }

  /// Draws single points if there are few; their titles show the values in browsers without script too.
  void draw_points(const Curve& curve, const std::vector<std::pair<double, double>>& points) {
    for (const auto& [step, value] : points) {
      svg_.begin_group(runs_[curve.run].name + ", step " + grouped(static_cast<int64_t>(step)) + ": " +
                       shortest_text(value));
      svg_.circle(x(step), y(value), 2.5, "class=\"" + class_of_run(curve.run) + " point\"");
      svg_.end_group();
    }
  }

  std::string path_of(const std::vector<std::pair<double, double>>& points) const {
    std::string path;
    for (const auto& [step, value] : points)
      path += (path.empty() ? "M" : "L") + fixed(x(step), 1) + " " + fixed(y(value), 1);
    return path;
  }

  const Chart& chart_;
  const std::vector<Run>& runs_;
  const int parts_;
  Scale steps_, values_;
  lab::Svg svg_;
};

}  // namespace

std::string class_of_run(size_t run) {
  return "c" + std::to_string(run % kColours) + (run >= kColours ? " dashed" : "");
}

DrawnChart draw(const Chart& chart, const std::vector<Run>& runs, int parts) {
  return ChartDrawing(chart, runs, parts).drawn();
}

}  // namespace adjoin::report
