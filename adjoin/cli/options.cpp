#include "adjoin/cli/options.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <iomanip>
#include <sstream>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/cli/config_file.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/train/saved_model.hpp"

namespace adjoin::cli {
namespace {

using train::Configuration;
using train::Field;

std::string shown_default(const Field& field, const Configuration& defaults) {
  std::ostringstream text;
  text << std::boolalpha;
  std::visit([&](auto member) { text << defaults.*member; }, field.member);
  return text.str();
}

std::string metavariable(const Field& field) {
  if (!field.choices.empty()) return std::string(field.choices);
  if (std::holds_alternative<int64_t Configuration::*>(field.member)) return "INTEGER";
  if (std::holds_alternative<double Configuration::*>(field.member)) return "NUMBER";
  return field.name == "vocab" ? "FILE" : "PATH";
}

std::string shown(const Field& field, const Configuration& values) {
  const std::string text = shown_default(field, values);
  return text.empty() ? "none" : text;
}

void require_unchanged(const Field& field, const Configuration& run, const Configuration& given) {
  require(std::visit([&](auto member) { return run.*member == given.*member; }, field.member), [&] {
    return train::option_of(field.name) + " " + shown(field, given) + ": a resumed run keeps its own, and that of " +
           run.resume + " is " + shown(field, run);
  });
}

/// CLI11's help text without the values in braces that it shows behind --no-… flags.
class PlainFormatter : public CLI::Formatter {
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    constexpr std::string_view kValue = "{false}";
    std::string name = CLI::Formatter::make_option_name(option, is_positional);
    if (const size_t at = name.find(kValue); at != name.npos) name.erase(at, kValue.size());
    return name;
  }
};

CLI::Option* add_field(CLI::App& command, const Field& field, Configuration& values) {
  const std::string option = train::option_of(field.name), help(field.help);
  if (const auto* flag = std::get_if<bool Configuration::*>(&field.member)) {
    const std::string negated = "!--no-" + option.substr(2);
    return command.add_flag(option + "," + negated, values.**flag, help);
  }
  return std::visit([&](auto member) { return command.add_option(option, values.*member, help); }, field.member)
      ->option_text(metavariable(field));
}

}  // namespace

CLI::App* add_command(Program& program, CLI::App& parent, const std::string& name, const std::string& description,
                      std::function<void()> run) {
  CLI::App* command = parent.add_subcommand(name, description);
  command->formatter(std::make_shared<PlainFormatter>());
  auto file = std::make_shared<std::string>();
  command->add_option("--config", *file, "TOML file whose keys are these options' names; the command line wins over it")
      ->option_text("FILE");
  command->final_callback([&program, command, file, run = std::move(run)] {
    program.action = [=] {
      if (!file->empty()) apply_config_file(*command, *file);
      run();
    };
  });
  return command;
}

Configuration GivenConfiguration::resolve() const {
  const std::string run = train::run_to_resume(values.resume, values.out);
  Configuration resolved = run.empty() ? train::configuration_of(values.preset) : train::configuration_to_resume(run);
  const Configuration base = resolved;
  for (const Field& field : train::fields()) {
    const CLI::Option* option = command->get_option_no_throw(train::option_of(field.name));
    if (option == nullptr || option->count() == 0) continue;
    std::visit([&](auto member) { resolved.*member = values.*member; }, field.member);
    if (!run.empty() && train::resumed_run_keeps(field)) require_unchanged(field, base, resolved);
  }
  resolved.resume = run;
  train::validate(resolved);
  return resolved;
}

std::shared_ptr<GivenConfiguration> add_configuration_options(CLI::App& command,
                                                              std::initializer_list<std::string_view> wanted) {
  const auto is_wanted = [&](std::string_view name) {
    return std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  };
  auto given = std::make_shared<GivenConfiguration>();
  given->command = &command;
  const Configuration defaults;
  for (const Field& field : train::fields()) {
    if (!is_wanted(field.group) && !is_wanted(field.name)) continue;
    CLI::Option* option = add_field(command, field, given->values);
    option->group(std::string(field.group));
    const std::string value = train::preset_decides(field.name) ? "the preset's" : shown_default(field, defaults);
    if (!value.empty()) option->description(std::string(field.help) + " [" + value + "]");
  }
  return given;
}

std::string preset_table() {
  std::ostringstream out;
  out << std::boolalpha << std::left << "Presets:\n";
  const auto column = [&](const char* name, auto member) {
    out << "  " << std::setw(17) << name;
    for (const train::Preset& preset : train::presets()) out << std::setw(12) << preset.*member;
    out << '\n';
  };
  using P = train::Preset;
  column("", &P::name);
  column("vocabulary-size", &P::vocabulary_size);
  column("layers", &P::layers);
  column("hidden", &P::hidden);
  column("heads", &P::heads);
  column("sequence", &P::sequence);
  column("pooling", &P::pooling);
  column("positions", &P::positions);
  column("score-scale", &P::score_scale);
  column("final-norm", &P::final_norm);
  column("dropout", &P::dropout);
  column("token-dropout", &P::token_dropout);
  column("batch", &P::batch);
  column("epochs", &P::epochs);
  column("lr", &P::lr);
  column("weight-decay", &P::weight_decay);
  column("precision", &P::precision);
  return out.str();
}

void add_layout_options(CLI::App& command, int64_t& dp, int64_t& tp, std::string& backend, int64_t& threads_per_rank) {
  const auto add = [&](std::string_view name, auto& variable) {
    const auto fields = train::fields();
    const auto field = std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == name; });
    const std::string help = std::string(field->help) + " [" + shown_default(*field, Configuration{}) + "]";
    CLI::Option* option = command.add_option(train::option_of(name), variable, help)->group("Layout");
    option->option_text(metavariable(*field));
  };
  add("dp", dp);
  add("tp", tp);
  add("backend", backend);
  add("threads_per_rank", threads_per_rank);
}

void require_given(const std::string& value, std::string_view option) {
  require(!value.empty(), [&] { return std::string(option) + " is needed"; });
}

bool prints() {
  return mpi_job_rank() == 0;
}

}  // namespace adjoin::cli
