#include "adjoin/report/page.hpp"

#include <algorithm>
#include <functional>

#include "adjoin/base/text.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/base/version.hpp"
#include "adjoin/lab/svg.hpp"
#include "adjoin/report/chart.hpp"
#include "adjoin/report/failures.hpp"
#include "adjoin/report/page_parts.hpp"
#include "adjoin/report/pictures.hpp"
#include "adjoin/report/tables.hpp"

namespace adjoin::report {
namespace {

using lab::escaped_markup;

// A point takes about 35 bytes, so this number takes 1.5 MB.
constexpr int kMostPoints = 42'000, kMostParts = 400, kLeastParts = 40;

std::string section(const std::string& title, const std::string& content) {
  return content.empty() ? "" : "<section><h2>" + escaped_markup(title) + "</h2>\n" + content + "</section>\n";
}

std::string figure(const std::string& caption, const std::string& content) {
  return "<figure><figcaption>" + caption + "</figcaption>" + content + "</figure>\n";
}

std::string legend(const std::vector<Run>& runs) {
  std::string items;
  for (size_t run = 0; run < runs.size(); ++run) items += "<li>" + name_html(runs, run) + "</li>";
  return "<ul class=\"legend\">" + items + "</ul>\n";
}

/// A figure for each run that has something to show.
std::string figures(const std::vector<Run>& runs, const std::function<std::string(size_t run)>& content_of,
                    const char* around = "figures") {
  std::string all;
  for (size_t run = 0; run < runs.size(); ++run)
    if (const std::string content = content_of(run); !content.empty()) all += figure(name_html(runs, run), content);
  return all.empty() ? "" : std::string("<div class=\"") + around + "\">\n" + all + "</div>\n";
}

/// Draws all charts, and puts their data for the script into `data`.
std::string charts(const std::vector<Run>& runs, nlohmann::ordered_json& data) {
  const std::vector<ChartGroup> groups = charts_of(runs);
  int curves = 0;
  for (const ChartGroup& group : groups)
    for (const Chart& chart : group.charts) curves += static_cast<int>(chart.curves.size());
  const int parts = std::clamp(kMostPoints / 2 / std::max(1, curves), kLeastParts, kMostParts);
  std::string html;
  for (const ChartGroup& group : groups) {
    if (!group.title.empty()) html += "<h3>" + escaped_markup(group.title) + "</h3>\n";
    html += "<div class=\"figures\">\n";
    for (const Chart& chart : group.charts) {
      DrawnChart drawn = draw(chart, runs, parts);
      html += figure(escaped_markup(chart.title), drawn.svg);
      data.push_back(std::move(drawn.data));
    }
    html += "</div>\n";
  }
  if (html.empty()) return "";
  return legend(runs) + html +
         "<p class=\"note\">The steps go from left to right. For long runs, thin lines show the least and the greatest "
         "value of each stretch of steps, and a bold line the mean of each hundredth of the steps.</p>\n";
}

std::string memory(const std::vector<Run>& runs, const std::vector<PlannedMemory>& planned) {
  return figures(runs, [&](size_t run) {
    const PlannedMemory plan = planned.empty() ? PlannedMemory{} : planned[run];
    std::string picture = draw_memory(runs[run], plan.ranks);
    if (!picture.empty() && !plan.trouble.empty())
      picture += "<p class=\"note\">Without its plan: " + escaped_markup(plan.trouble) + "</p>";
    return picture;
  });
}

std::string wide(const std::string& picture) {
  return picture.empty() ? "" : "<div class=\"wide\">" + picture + "</div>";
}

/// JSON for a script element: nothing in it ends the script, and names are as on the page.
std::string script_data(nlohmann::ordered_json charts, const std::vector<Run>& runs) {
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  for (const Run& run : runs) names.push_back(printable(run.name));
  const std::string json = nlohmann::ordered_json{{"runs", names}, {"charts", std::move(charts)}}.dump();
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

}  // namespace

std::string page_mark() {
  return "<!doctype html>\n<!-- written by adjoin report -->\n";
}

std::string page_of(const std::vector<Run>& runs, const std::vector<PlannedMemory>& planned) {
  const std::string title = runs.size() == 1 ? runs.front().name : counted(std::ssize(runs), "run");
  nlohmann::ordered_json data = nlohmann::ordered_json::array();
  std::string page = page_mark() +
                     "<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>" +
                     escaped_markup(title) + " – adjoin report</title>\n<style>" + kStyle +
                     "</style></head><body>\n<h1>" + escaped_markup(title) +
                     "</h1>\n<p class=\"note\">A report of adjoin " + kVersion + "</p>\n";
  page += section("Results", results_table(runs));
  page += section("Classes", figures(runs, [&](size_t run) { return class_table(runs[run]); }));
  page += section("Failures", figures(
                                  runs, [&](size_t run) { return failure_html(runs[run]); }, "failures"));
  page += section("Curves", charts(runs, data));
  page += section("Time of each rank", figures(runs, [&](size_t run) { return draw_times(runs[run]); }));
  page += section("Memory of each rank", memory(runs, planned));
  page += section("Layout", figures(runs, [&](size_t run) { return wide(draw_layout(runs[run])); }));
  page += section("Pipeline", figures(
                                  runs, [&](size_t run) { return wide(draw_pipeline(runs[run])); }, "schedules"));
  page += section("Configuration", configuration_tables(runs));
  page += section("Machine", machine_table(runs));
  return page + "<div id=\"tip\" hidden></div>\n<script type=\"application/json\" id=\"data\">" +
         script_data(std::move(data), runs) + "</script>\n<script>" + kScript + "</script>\n</body></html>\n";
}

}  // namespace adjoin::report
