#include "adjoin/cli/options.hpp"

#include <unistd.h>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <cstdio>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/terminal.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/config_file.hpp"
#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/wrap.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/hugging_face/family.hpp"
#include "adjoin/movement/libtorch.hpp"
#include "adjoin/pipeline/schedule.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/task/configuration_file.hpp"
#include "adjoin/task/same_bits.hpp"
#include "adjoin/task/traced_steps.hpp"
#include "adjoin/train/resume.hpp"

namespace adjoin::cli {
namespace {

using train::Configuration;
using train::Field;

std::string metavariable(const Field& field) {
  if (field.name == "preset") return "NAME";  // the table of presets lists them
  if (!field.choices.empty()) return std::string(field.choices);
  if (std::holds_alternative<train::Access<int64_t>>(field.member)) return "INTEGER";
  if (std::holds_alternative<train::Access<double>>(field.member)) return "NUMBER";
  if (field.name.ends_with("_column")) return "NAME";
  if (field.name == "pipeline") return "NAME";
  if (field.name == "stages") return "N,N,...";
  if (field.name == "trace") return "N-N";
  if (field.name == "class_weights") return "balanced|N,N,...";
  if (field.name == "same_bits") return "lanes=N,...";
  return field.name == "vocab" ? "FILE" : "PATH";
}

std::string shown(const Field& field, const Configuration& values) {
  const std::string text = text_of(field, values);
  return text.empty() ? "none" : text;
}

void require_unchanged(const Field& field, const Configuration& run, const Configuration& given) {
  const Configuration a = train::with_absolute_paths(run), b = train::with_absolute_paths(given);
  require(std::visit([&](auto member) { return member(a) == member(b); }, field.member), [&] {
    return train::option_of(field.name) + " " + shown(field, given) + ": a resumed run keeps its own, and that of " +
           run.resume + " is " + shown(field, run);
  });
}

void require_as_begun(const Field& field, const Configuration& begun, const Configuration& given) {
  require(std::visit([&](auto member) { return member(begun) == member(given); }, field.member), [&] {
    return train::option_of(field.name) + " " + shown(field, given) + ": --from " + begun.from +
           (field.name == "vocab" ? " has a vocabulary of its own"
                                  : " decides it, and there it is " + shown(field, begun));
  });
}

/// CLI11's help text in the width of the terminal, without the values in braces that it shows after --no-… flags.
class PlainFormatter : public CLI::Formatter {
 public:
  PlainFormatter() { column_width(std::min(kNamesColumn, width_ * 3 / 8)); }

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    return wrapped(CLI::Formatter::make_help(app, name, mode), width_, get_column_width());
  }

 private:
  static constexpr size_t kNamesColumn = 30, kWidthOfFiles = 80, kNarrowest = 20;
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    constexpr std::string_view kValue = "{false}";
    std::string name = CLI::Formatter::make_option_name(option, is_positional);
    if (const size_t at = name.find(kValue); at != name.npos) name.erase(at, kValue.size());
    return name;
  }

  size_t width_ = columns_of_output();

  static size_t columns_of_output() {
    const auto columns = static_cast<size_t>(terminal_columns(STDOUT_FILENO));
    return columns == 0 ? kWidthOfFiles : std::max(columns, kNarrowest);
  }
};

/// A field's help, with the names that tables of other layers have.
std::string help_of(const Field& field) {
  std::string help(field.help);
  if (help.find('{') == std::string::npos) return help;
  std::vector<std::string_view> families;
  for (const train::Family& family : train::families()) families.push_back(family.model_type);
  for (const auto& [word, names] : {std::pair<std::string_view, std::string>("{families}", alternatives(families)),
                                    {"{schedules}", joined(pipeline::schedule_names())}})
    if (const size_t place = help.find(word); place != std::string::npos) help.replace(place, word.size(), names);
  return help;
}

CLI::Option* add_field(CLI::App& command, const Field& field, Configuration& values) {
  const std::string option = train::option_of(field.name), help = help_of(field);
  if (const auto* flag = std::get_if<train::Access<bool>>(&field.member)) {
    const std::string negated = "!--no-" + option.substr(2);
    return command.add_flag(option + "," + negated, (*flag)(values), help);
  }
  const bool has_default = (!text_of(field, values).empty() && field.name != "same_bits") || field.name == "from";
  const std::function<void(const std::string&)> read = [&, option, has_default](const std::string& text) {
    if (!has_default) check_not_empty(option, text);
    set(field, text, values);
  };
  CLI::Option* const added = command.add_option_function(option, read, help)->option_text(metavariable(field));
  return field.name == "same_bits" ? added->expected(0, 1)->default_str("on") : added;  // alone it means "on"
}

void warn_of_host_memory(const CLI::App& command) {
  const CLI::Option* option = command.get_option_no_throw("--host-memory");
  if (option == nullptr || option->count() == 0 || started_by_mpi()) return;
  const std::string& word = option->results().back();
  if (word == "on" || word == "off")
    train::warn("--host-memory " + word +
                " changes nothing: the ranks are threads of one process, which have its memory in common");
}

}  // namespace

Program::Program() {
  app.formatter(std::make_shared<PlainFormatter>());  // the subcommands inherit it
}

CLI::App* add_command(Program& program, CLI::App& parent, const std::string& name, const std::string& description,
                      std::function<void()> run, std::initializer_list<OptionRow> rows) {
  CLI::App* command = parent.add_subcommand(name, description);
  auto file = std::make_shared<std::string>();
  add_options(program, *command,
              {text("--config", *file, "FILE",
                    "TOML file whose keys are these options' names; the command line overrides it")});
  add_options(program, *command, rows);
  command->final_callback([&program, command, file, run = std::move(run)] {
    program.action = [=, &program] {
      if (!file->empty()) program.given_by_file = apply_config_file(*command, *file);
      warn_of_host_memory(*command);
      for (const auto& check : program.checks[command]) check();
      run();
    };
  });
  return command;
}

void add_options(Program& program, CLI::App& command, std::initializer_list<OptionRow> rows, const std::string& group) {
  for (const OptionRow& row : rows) {
    CLI::Option* option = row.add(command);
    if (!group.empty()) option->group(group);
    if (row.check) program.checks[&command].push_back(row.check);
  }
}

Configuration GivenConfiguration::resolve() const {
  const std::string run = train::run_to_resume(values.resume, values.out);
  const auto is_given = [this](const char* name) {
    const CLI::Option* option = command->get_option_no_throw(name);
    return option != nullptr && option->count() > 0;
  };
  require(values.step == 0 || !run.empty(),
          "--step chooses a checkpoint of the run in --resume, so --resume is needed");
  require(!values.from.empty() || !is_given("--from"), "--from is empty, expected the folder of a model");
  const bool is_named = is_given("--preset"), begins = run.empty() && !values.from.empty();
  require(run.empty() || !is_given("--from") || values.resume == "auto",
          "--from begins a new training and --resume continues one: give only one of them");
  const bool is_program = !values.program.empty() && run.empty();
  Configuration resolved = is_program ? Configuration()
                           : begins   ? train::begun_from(values.from)
                           : run.empty()
                               ? train::configuration_of(is_named ? values.preset : train::default_preset(values.model))
                               : train::configuration_to_resume(run, values.step);
  if (!run.empty()) train::check_known(resolved, "--resume " + run);
  const Configuration base = resolved;
  for (const Field& field : train::fields()) {
    const CLI::Option* option = command->get_option_no_throw(train::option_of(field.name));
    if (option == nullptr || option->count() == 0) continue;
    require(!is_program || field.group != "Model" || train::is_for_programs(field), [&] {
      return train::option_of(field.name) + " is for adjoin's own models, and --program gives the network";
    });
    std::visit([&](auto member) { member(resolved) = member(values); }, field.member);
    if (!run.empty() && train::resumed_run_keeps(field)) require_unchanged(field, base, resolved);
    if (begins && train::beginning_decides(field)) require_as_begun(field, base, resolved);
  }
  // Another layout than the run's: rows are only split between tensor-parallel ranks.
  if (!run.empty() && resolved.tp == 1 && !is_given("--sp")) resolved.sp = false;
  // The same for the run's own stages, and for a schedule with another number of ranks.
  const bool other_stages = resolved.pp != base.pp || resolved.pipeline != base.pipeline;
  if (!run.empty() && other_stages && !is_given("--stages")) resolved.stages.clear();
  if (!run.empty() && other_stages && !is_given("--chunks")) resolved.chunks = 1;
  resolved = train::with_all_ranks(std::move(resolved));
  if (!run.empty()) resolved.same_bits = train::resumed_same_bits(base.same_bits, resolved.same_bits);
  // A run keeps its numbers, whatever later decides the defaults.
  if (const auto numbers = train::same_bits(resolved)) resolved.same_bits = numbers->to_string();
  resolved.resume = run;
  if (is_program) resolved.task = train::kProgramTask;
  // A job that was restarted by the same command has already traced its steps.
  if (values.resume == "auto" && train::traced_steps_are_past(resolved)) resolved.trace.clear();
  require(!begins || resolved.context == 0 || resolved.sequence <= resolved.context, [&] {
    return "--sequence " + std::to_string(resolved.sequence) + ": is longer than the model allows, as " +
           train::limit_of_beginning(values.from);
  });
  train::Configuration checked = resolved;
  if (is_given("--ranks")) checked.halves = false;  // for which the layouts of a plan are checked
  train::validate(checked);
  return resolved;
}

std::shared_ptr<GivenConfiguration> add_configuration_options(CLI::App& command,
                                                              std::initializer_list<std::string_view> wanted) {
  const auto is_wanted = [&](std::string_view name) {
    return std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  };
  auto given = std::make_shared<GivenConfiguration>();
  given->command = &command;
  command.get_option("--config")
      ->description(
          "TOML file whose keys are these options' names, or the config.json of a run, whose options all apply "
          "except where it wrote; the command line overrides it");
  const Configuration defaults;
  for (const Field& field : train::fields()) {
    if (!is_wanted(field.group) && !is_wanted(field.name)) continue;
    CLI::Option* option = add_field(command, field, given->values);
    option->group(std::string(field.group));
    const std::string value = train::preset_decides(field.name) ? "the preset's" : text_of(field, defaults);
    if (!value.empty()) option->description(option->get_description() + " [" + value + "]");
  }
  return given;
}

std::string preset_table() {
  const auto& rows = train::presets();
  std::ostringstream out;
  out << std::left;
  for (const std::string_view model : {"classifier", "decoder"}) {
    out << (model == "classifier" ? "" : "\n") << "Presets of a " << model << ":\n";
    for (size_t column = 0; column < rows[0].size(); ++column) {
      if (rows[0][column] == "model") continue;
      std::vector<std::string_view> values;
      for (const auto& row : rows)
        if (row[1] == model) values.push_back(row[column]);
      if (values[0] == "-") continue;
      out << "  " << std::setw(17) << (column == 0 ? "" : train::option_of(rows[0][column]).substr(2));
      for (const std::string_view value : values) out << std::setw(12) << value;
      out << '\n';
    }
  }
  return out.str();
}

namespace {

/// The option for a field of train::Configuration that writes into `value`. It refuses what the field cannot have as soon as it is
/// read, before a model is opened.
template <class Value>
CLI::Option* add_value(CLI::App& command, std::string_view name, Value& value) {
  using Stored = std::conditional_t<std::is_enum_v<Value>, uint8_t, Value>;
  const Field& field = train::field_named(name);
  const auto member = std::get<train::Access<Stored>>(field.member);
  const std::function<void(const std::string&)> read = [&field, &value, member](const std::string& text) {
    const std::string option = train::option_of(field.name);
    check_not_empty(option, text);
    Configuration given;
    set(field, text, given);
    if (field.name == "device") check_device(text);
    if constexpr (std::is_same_v<Value, int64_t>)
      check_range(option, member(given), static_cast<int64_t>(field.least), static_cast<int64_t>(field.most));
    value = static_cast<Value>(member(given));
  };
  Configuration shown;
  member(shown) = static_cast<Stored>(value);
  return command.add_option_function(train::option_of(name), read, help_of(field) + " [" + text_of(field, shown) + "]")
      ->option_text(metavariable(field));
}

}  // namespace

void add_layout_options(CLI::App& command, const std::vector<std::pair<std::string_view, int64_t*>>& axes,
                        train::ModelUse& use) {
  for (const auto& [axis, size] : axes) add_value(command, axis, *size)->group("Layout");
  add_value(command, "backend", use.ranks.backend)->group("Layout");
  add_value(command, "device", use.ranks.device)->group("Layout");
  add_value(command, "host_memory", use.ranks.host_memory)->group("Layout");
  add_value(command, "threads_per_rank", use.ranks.threads_per_rank)->group("Layout");
}

OptionRow host_memory_row(HostMemory& use) {
  return {[&use](CLI::App& command) { return add_value(command, "host_memory", use); }};
}

OptionRow model_row(std::string& folder) {
  return text("--model", folder, "DIR", "Output folder of a training run, or a folder of Hugging Face's transformers",
              /*is_required=*/true);
}

OptionRow step_row(int64_t& step) {
  return number(
      "--step", step,
      "Step of the run's checkpoint to use (adjoin checkpoint lists them); 0: the finished model, or the newest "
      "checkpoint",
      0);
}

void require_given(const std::string& value, std::string_view option) {
  require(!value.empty(), [&] { return std::string(option) + " is needed"; });
}

void flush_output() {
  std::cout << std::flush;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout.good())
    throw IoError("standard output: cannot be written");
}

bool prints() {
  return mpi_job_rank() == 0;
}

}  // namespace adjoin::cli
