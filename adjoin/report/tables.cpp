#include "adjoin/report/tables.hpp"

#include <algorithm>
#include <map>

#include "adjoin/base/text.hpp"
#include "adjoin/lab/svg.hpp"
#include "adjoin/report/chart.hpp"
#include "adjoin/report/pictures.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/task/measure.hpp"

namespace adjoin::report {
namespace {

using lab::escaped_markup;
using Json = nlohmann::ordered_json;

/// Cells are HTML. Empty columns are not printed.
class Table {
 public:
  explicit Table(std::string first_column) : columns_{std::move(first_column)} {}

  void begin_row(std::string first, const std::string& style = "") {
    rows_.push_back({{{0, std::move(first)}}, style});
  }
  void set(const std::string& column, std::string content) {
    if (content.empty()) return;
    auto place = std::ranges::find(columns_, column);
    if (place == columns_.end()) place = columns_.insert(place, column);
    rows_.back().cells[static_cast<size_t>(place - columns_.begin())] = std::move(content);
  }

  bool is_empty() const { return rows_.empty(); }

  std::string html() const {
    std::string html = "<div class=\"wide\"><table><thead><tr>";
    for (const std::string& column : columns_) html += "<th scope=\"col\">" + escaped_markup(column) + "</th>";
    html += "</tr></thead><tbody>\n";
    for (const Row& row : rows_) {
      html += row.style.empty() ? "<tr>" : "<tr class=\"" + row.style + "\">";
      for (size_t column = 0; column < columns_.size(); ++column) {
        const auto cell = row.cells.find(column);
        const std::string content = cell == row.cells.end() ? "" : cell->second;
        html += column == 0 ? "<th scope=\"row\">" + content + "</th>" : "<td>" + content + "</td>";
      }
      html += "</tr>\n";
    }
    return html + "</tbody></table></div>\n";
  }

 private:
  struct Row {
    std::map<size_t, std::string> cells;  // by column
    std::string style;
  };

  std::vector<std::string> columns_;
  std::vector<Row> rows_;
};

/// A number of summary.json with four decimals, or a text; "" for anything else.
std::string fact_text(const Json& fact) {
  if (fact.is_string()) return escaped_markup(fact.get<std::string>());
  if (fact.is_number_integer()) return grouped(fact.get<int64_t>());
  if (fact.is_number()) return train::to_string(train::Measure{.value = fact.get<double>()});
  return "";
}

/// The median over the steps, so that a few slow steps do not matter.
std::string median_text(const Run& run, std::string_view key) {
  for (const auto& [name, series] : run.of_steps)
    if (name == key && !series.values.empty()) {
      std::vector<double> values = series.values;
      const auto middle = values.begin() + std::ssize(values) / 2;
      std::ranges::nth_element(values, middle);
      return grouped(static_cast<int64_t>(*middle));
    }
  return "";
}

std::string remarks_of(const Run& run) {
  std::vector<std::string> remarks;
  if (const std::string damage = run.damage_text(); !damage.empty()) remarks.push_back(damage);
  if (!run.configuration) remarks.push_back("its configuration is not known");
  if (!run.skipped.empty()) remarks.push_back(counted(std::ssize(run.skipped), "skipped step"));
  return joined(remarks, "; ");
}

std::string table_of_fields(const std::vector<Run>& runs, const std::vector<const train::Field*>& wanted,
                            const std::string& style) {
  Table table("option");
  for (const train::Field* field : wanted) {
    table.begin_row(
        (style.empty() ? "" : "<span title=\"differs\">≠</span> ") + escaped_markup(train::option_of(field->name)),
        style);
    for (const Run& run : runs)
      if (run.configuration && train::concerns(*field, *run.configuration)) {
        const std::string value = train::text_of(*field, *run.configuration);
        table.set(run.name, value.empty() ? "–" : escaped_markup(value));
      }
  }
  return table.is_empty() ? "" : table.html();
}

/// Whether a field only says where a run is stored.
bool is_place(const train::Field& field) {
  return field.name == "out" || field.name == "overwrite" || field.name == "resume" || field.name == "step";
}

}  // namespace

std::string name_html(const std::vector<Run>& runs, size_t run) {
  return "<span class=\"swatch " + class_of_run(run) + "\"></span>" + escaped_markup(runs[run].name);
}

std::string results_table(const std::vector<Run>& runs) {
  Table table("run");
  for (size_t i = 0; i < runs.size(); ++i) {
    const Run& run = runs[i];
    table.begin_row(name_html(runs, i));
    table.set("state", run.state == RunState::ended_early
                           ? "<strong class=\"trouble\">" + escaped_markup(run.state_text()) + "</strong>"
                           : escaped_markup(run.state_text()));
    if (run.configuration) table.set("task", escaped_markup(run.configuration->task));
    if (run.configuration) table.set("layout", escaped_markup(train::layout_text(*run.configuration)));
    if (run.summary.is_object()) {
      for (const auto& [key, value] : run.summary.items())
        if (key.starts_with("test_") || key == "train_loss" || key == "validation_loss" || key == "best_step")
          table.set(train::spoken({.name = key == "train_loss" ? "training_loss" : key}), fact_text(value));
      if (const auto seconds = number_of(run.summary, "train_seconds"))
        table.set("training time", text_of_seconds(*seconds));
    }
    table.set("steps", grouped(run.last_step));
    table.set("tokens/s, median", median_text(run, "tokens_per_second"));
    table.set("remarks", escaped_markup(remarks_of(run)));
  }
  return table.html();
}

std::string class_table(const Run& run) {
  constexpr size_t kMostClasses = 100, kMostPaired = 32;
  const Json &names = run.fact("test_classes"), &f1 = run.fact("test_f1"), &pairs = run.fact("test_confusion");
  const auto at = [](const Json& list, size_t place) {
    return list.is_array() && place < list.size() ? list[place] : Json();
  };
  if (!names.is_array() || names.size() > kMostClasses) return "";
  Table table("class");
  for (size_t actual = 0; actual < names.size(); ++actual) {
    table.begin_row(fact_text(names[actual]));
    table.set("F1", fact_text(at(f1, actual)));
    for (size_t taken = 0; names.size() <= kMostPaired && taken < names.size(); ++taken)
      if (const Json& name = names[taken]; name.is_string())
        table.set("taken for " + name.get<std::string>(), fact_text(at(at(pairs, actual), taken)));
  }
  return table.is_empty() ? "" : table.html();
}

std::string configuration_tables(const std::vector<Run>& runs) {
  std::vector<train::Configuration> known, presets;
  for (const Run& run : runs)
    if (run.configuration) {
      known.push_back(*run.configuration);
      presets.push_back(run.configuration->task.empty() ? train::configuration_of(run.configuration->preset)
                                                        : train::Configuration());
    }
  if (known.empty()) return "";
  std::vector<const train::Field*> first, others;
  for (const train::Field& field : train::fields()) {
    const std::string value = train::text_of(field, known.size() == 1 ? presets.front() : known.front());
    const bool differs = std::ranges::any_of(known, [&](const auto& c) { return train::text_of(field, c) != value; });
    if (is_place(field) || std::ranges::none_of(known, [&](const auto& c) { return concerns(field, c); })) continue;
    (differs ? first : others).push_back(&field);
  }
  const bool has_preset = known.front().task.empty();
  std::string html;
  if (!first.empty())
    html += std::string("<p>") +
            (known.size() > 1 ? "Options in which the runs differ"
             : has_preset     ? "Options that are not what the preset gives"
                              : "Options that are not the default") +
            "</p>\n" + table_of_fields(runs, first, known.size() == 1 ? "" : "differs");
  html += "<details><summary>" + counted(std::ssize(others), "option") +
          (known.size() > 1 ? " that all runs have alike"
           : has_preset     ? " as the preset gives them"
                            : " of the default") +
          "</summary>\n" + table_of_fields(runs, others, "") + "</details>\n";
  return html;
}

std::string machine_table(const std::vector<Run>& runs) {
  Table table("run");
  for (size_t i = 0; i < runs.size(); ++i) {
    const Run& run = runs[i];
    table.begin_row(name_html(runs, i));
    table.set("host", fact_text(run.fact("host")));
    const Json& machine = run.fact("machine");
    if (machine.is_object()) {
      if (const auto cores = number_of(machine, "usable_cores"))
        table.set("cores", fixed(*cores, 0) + " of " + fixed(number_of(machine, "cores").value_or(*cores), 0));
      if (const auto bytes = number_of(machine, "memory_bytes")) table.set("memory", bytes_text(*bytes));
      if (machine.contains("simd")) table.set("vectors", fact_text(machine["simd"]));
      if (machine.contains("numa_nodes")) table.set("NUMA nodes", fact_text(machine["numa_nodes"]));
    }
    if (run.configuration)
      table.set("ranks", grouped(train::grid_sizes(*run.configuration).ranks()) +
                             (run.configuration->backend == train::Workers::mpi ? " MPI processes" : " threads"));
    table.set("adjoin", fact_text(run.fact("adjoin")));
    table.set("LibTorch", fact_text(run.fact("libtorch")));
    if (run.beginning.is_object() && run.beginning.contains("date"))
      table.set("begun", fact_text(run.beginning["date"]));
    if (run.summary.is_object() && run.summary.contains("date")) table.set("ended", fact_text(run.summary["date"]));
  }
  return table.html();
}

}  // namespace adjoin::report
