#include <algorithm>
#include <cmath>
#include <limits>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/lab/svg.hpp"
#include "adjoin/pipeline/picture.hpp"
#include "adjoin/report/chart.hpp"
#include "adjoin/report/pictures.hpp"
#include "adjoin/task/grid_sizes.hpp"

namespace adjoin::report {
namespace {

constexpr double kBoxLeft = 66, kBoxTop = 24, kBoxWidth = 70, kBoxHeight = 34, kBetween = 4, kBelowPart = 18;

/// Draws the ranks of a grid {dp, ep, pp, cp, tp}: for each part of the batch a row for each coordinate along pp, with the
/// ranks along cp and tp side by side.
class LayoutDrawing {
 public:
  LayoutDrawing(const Run& run, const train::GridSizes& sizes)
      : run_(run), sizes_(sizes), shape_(sizes.shape()), columns_(sizes.cp * sizes.tp) {}

  std::string drawn() {
    draw_head();
    for (int cell = 0; cell < shape_.cells(); ++cell) draw_box(cell);
    const double width = kBoxLeft + (kBoxWidth + kBetween) * static_cast<double>(columns_);
    const double height = kBoxTop + height_of_part() * static_cast<double>(sizes_.dp);
    return svg_.in_page(width, height, "layout of " + run_.name,
                        "class=\"layout\" width=\"" + std::to_string(static_cast<int>(width)) + "\"");
  }

 private:
  int64_t coordinate(int cell, const char* axis) const {
    return shape_.coordinates(cell)[static_cast<size_t>(shape_.axis_index(axis))];
  }
  double height_of_part() const { return (kBoxHeight + kBetween) * static_cast<double>(sizes_.pp) + kBelowPart; }
  double x(int64_t column) const { return kBoxLeft + (kBoxWidth + kBetween) * static_cast<double>(column); }

  void draw_head() {
    for (int64_t column = 0; column < columns_; ++column) {
      std::string words = sizes_.cp > 1 ? "cp " + std::to_string(column / sizes_.tp) + " " : "";
      if (sizes_.tp > 1 || sizes_.cp == 1) words += "tp " + std::to_string(column % sizes_.tp);
      svg_.text(x(column) + kBoxWidth / 2, kBoxTop - 8, "middle", words);
    }
  }

  void draw_box(int cell) {
    const int64_t pp = coordinate(cell, "pp"), ep = coordinate(cell, "ep");
    // Ranks along ep have different parts of the batch, too.
    const int64_t part = coordinate(cell, "replica") * sizes_.ep + ep;
    const int64_t column = coordinate(cell, "cp") * sizes_.tp + coordinate(cell, "tp");
    const double top =
        kBoxTop + height_of_part() * static_cast<double>(part) + (kBoxHeight + kBetween) * static_cast<double>(pp);
    const std::string rank = std::to_string(shape_.rank_of(cell)), stages = stages_of_rank(shape_.rank_of(cell));
    if (column == 0) {
      svg_.text(kBoxLeft - 8, top + 14, "end", "dp " + std::to_string(part));
      svg_.text(kBoxLeft - 8, top + 28, "end", "pp " + std::to_string(pp));
    }
    std::string tip = "rank " + rank + ":";
    for (size_t axis = 0; axis < shape_.axes().size(); ++axis)
      tip += " " + shape_.axes()[axis].name + " " + std::to_string(shape_.coordinates(cell)[axis]);
    svg_.begin_group(tip + (stages.empty() ? "" : "; stage " + stages));
    svg_.box(x(column), top, kBoxWidth, kBoxHeight, "class=\"box " + class_of_run(static_cast<size_t>(pp)) + "\"");
    svg_.text(x(column) + kBoxWidth / 2, top + (stages.empty() ? 21 : 15), "middle", "rank " + rank);
    if (!stages.empty()) svg_.text(x(column) + kBoxWidth / 2, top + 28, "middle", "stage " + stages);
    svg_.end_group();
  }

  /// "0, 2" if the run is cut into stages.
  std::string stages_of_rank(int rank) const {
    const nlohmann::ordered_json& ranks = run_.fact("ranks");
    if (sizes_.pp == 1 || !ranks.is_array() || static_cast<size_t>(rank) >= ranks.size()) return "";
    const nlohmann::ordered_json& of_rank = ranks[static_cast<size_t>(rank)];
    if (!of_rank.is_object() || !of_rank.contains("stages") || !of_rank["stages"].is_array()) return "";
    std::vector<int> stages;
    for (const auto& stage : of_rank["stages"])
      if (stage.is_number_integer()) stages.push_back(stage.get<int>());
    return short_ranges_text(stages);
  }

  const Run& run_;
  const train::GridSizes sizes_;
  const GridShape shape_;
  const int64_t columns_;
  lab::Svg svg_;
};

pipeline::Kind kind_named(const std::string& letter) {
  constexpr std::string_view kLetters = "FBIW";
  const size_t place = letter.size() == 1 ? kLetters.find(letter) : kLetters.npos;
  require(place != kLetters.npos, "no action " + letter);
  return static_cast<pipeline::Kind>(place);
}

}  // namespace

std::string draw_layout(const Run& run) {
  if (!run.configuration) return "";
  const train::GridSizes sizes = train::grid_sizes(*run.configuration);
  if (sizes.ranks() < 1 || sizes.ranks() > static_cast<int64_t>(kMostBoxes)) return "";
  return LayoutDrawing(run, sizes).drawn();
}

std::string draw_pipeline(const Run& run) {
  const nlohmann::ordered_json& step = run.fact("pipeline_step");
  if (!step.is_object()) return "";
  try {
    std::vector<std::vector<pipeline::TimedAction>> ranks;
    for (const auto& rank : step.at("ranks")) {
      auto& actions = ranks.emplace_back();
      for (const auto& action : rank.at("actions"))
        actions.push_back({{action.at("stage").get<int>(), kind_named(action.at("action").get<std::string>()),
                            action.at("microbatch").get<int>()},
                           action.at("begin").get<double>(),
                           action.at("end").get<double>()});
    }
    double first = std::numeric_limits<double>::infinity();
    for (const auto& actions : ranks)
      for (const auto& timed : actions) first = std::min(first, timed.begin);
    if (!std::isfinite(first)) return "";
    for (auto& actions : ranks)
      for (auto& timed : actions) timed.begin -= first, timed.end -= first;
    return pipeline::page_svg_of(ranks, "measured schedule of a step of " + run.name);
  } catch (const nlohmann::json::exception&) {
    return "";
  } catch (const InvalidArgument&) {  // also if there are more actions than can be drawn
    return "";
  }
}

}  // namespace adjoin::report
