#include "adjoin/cli/config_file.hpp"

#include <toml++/toml.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/names.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/configuration_file.hpp"

namespace adjoin::cli {
namespace {

std::string text_of(const toml::node& node) {
  if (const auto* list = node.as_array()) {
    std::vector<std::string> items;
    for (const toml::node& item : *list) {
      require(!item.is_array() && !item.is_boolean(), "expected a list of numbers or strings");
      items.push_back(text_of(item));
    }
    return joined(items, ",");
  }
  std::ostringstream text;
  text.precision(17);
  if (const auto* string = node.as_string())
    text << **string;
  else if (const auto* integer = node.as_integer())
    text << **integer;
  else if (const auto* number = node.as_floating_point())
    text << **number;
  else if (const auto* boolean = node.as_boolean())
    text << (**boolean ? "true" : "false");
  else
    throw InvalidArgument("expected a string, a number or a boolean");
  return text.str();
}

/// The key that was probably meant.
std::string key_meant(const CLI::App& command, const std::string& name) {
  std::vector<std::string> keys = option_names(command);
  std::erase_if(keys, [](const std::string& key) { return key == "--config" || key == "--help"; });
  for (std::string& key : keys) key.erase(0, 2);
  return did_you_mean(name, keys);
}

/// Sets an option; `where` is the place of its value, with which errors about it then begin.
void set_option(CLI::Option& option, const std::string& text, const std::string& where, GivenByFile& given) {
  if (option.count() > 0) return;  // the command line has priority
  for (const std::string& name : option.get_lnames()) given["--" + name] = where;
  try {
    option.add_result(text);
    option.run_callback();
  } catch (const CLI::ParseError& error) {
    throw InvalidArgument(error.what());
  }
}

std::string contents_of(const std::string& path) {
  std::ifstream file(path);
  require(file.is_open() && !std::filesystem::is_directory(path), [&] { return path + ": cannot be read"; });
  std::string text(std::istreambuf_iterator<char>(file), {});
  require(!file.bad(), [&] { return path + ": cannot be read"; });
  return text;
}

/// Sets the options that a run's config.json gives, except where the run wrote and whether it replaced another.
GivenByFile apply_run(CLI::App& command, const std::string& path, const std::string& text) {
  require(command.get_option_no_throw("--preset") != nullptr, [&] {
    return path + ": is the configuration of a run, but " + full_name(command) + " does not have the options in it";
  });
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    require(!json.is_discarded(), "is not JSON");
    train::check_known(train::configuration_from_json(json), "the configuration");
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(path + ": " + error.what());
  }
  GivenByFile given;
  for (const char* key : {"out", "overwrite", "resume", "step"}) json.erase(key);
  if (const auto schedule = json.find("pipeline"); schedule != json.end())
    *schedule = train::schedule_beside(path, schedule->get<std::string>());
  for (const auto& [key, value] : json.items()) {
    CLI::Option* option = command.get_option_no_throw(train::option_of(key));
    if (option == nullptr || value == "") continue;  // "": the run was not given it
    set_option(*option, value.is_string() ? value.get<std::string>() : value.dump(), path + ": ", given);
  }
  return given;
}

toml::table parse(const std::string& path, const std::string& text) {
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    throw InvalidArgument(path + ":" + std::to_string(error.source().begin.line) +
                          ": is not TOML: " + std::string(error.description()));
  }
}

}  // namespace

GivenByFile apply_config_file(CLI::App& command, const std::string& path) {
  const std::string text = contents_of(path);
  if (text.starts_with('{')) return apply_run(command, path, text);
  const toml::table table = parse(path, text);
  GivenByFile given;
  for (const auto& [key, node] : table) {
    const std::string name(key.str()), where = path + ":" + std::to_string(node.source().begin.line) + ": ";
    CLI::Option* option = command.get_option_no_throw("--" + name);
    require(option != nullptr && name != "config" && name != "help", [&] {
      return where + "unknown key \"" + name + "\"" + key_meant(command, name) + "; " + full_name(command) +
             " --help lists the options";
    });
    try {
      const bool may_be_alone = option->get_expected_min() == 0, is_flag = option->get_items_expected_max() == 0;
      const bool is_negated = is_flag && name.starts_with("no-");
      require(is_flag ? node.is_boolean() : may_be_alone || !node.is_boolean(),
              is_flag ? "expected true or false" : "expected a string or a number");
      require(!is_negated || !table.contains(name.substr(3)), [&] { return name.substr(3) + " is given too"; });
      std::string text = text_of(node);
      if (is_negated) text = **node.as_boolean() ? "false" : "true";
      if (!is_flag && node.is_boolean()) text = **node.as_boolean() ? "on" : "off";
      set_option(*option, text, where, given);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(where + name + ": " + error.what());
    }
  }
  return given;
}

}  // namespace adjoin::cli
