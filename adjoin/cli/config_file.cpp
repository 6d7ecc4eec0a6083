#include "adjoin/cli/config_file.hpp"

#include <toml++/toml.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "adjoin/base/error.hpp"

namespace adjoin::cli {
namespace {

std::string text_of(const toml::node& node) {
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

/// As it is typed: "adjoin bench matmul".
std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? "adjoin" : full_name(*parent) + " " + command.get_name();
}

void set_option(CLI::Option& option, const toml::node& node) {
  if (option.count() > 0) return;  // the command line wins
  const bool is_flag = option.get_expected_min() == 0;
  require(is_flag == node.is_boolean(), is_flag ? "expected true or false" : "expected a string or a number");
  try {
    option.add_result(text_of(node));
    option.run_callback();
  } catch (const CLI::ParseError& error) {
    throw InvalidArgument(error.what());
  }
}

toml::table parse(const std::string& path) {
  std::ifstream file(path);
  require(file.is_open() && !std::filesystem::is_directory(path), [&] { return path + ": cannot be read"; });
  const std::string text(std::istreambuf_iterator<char>(file), {});
  require(!file.bad(), [&] { return path + ": cannot be read"; });
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    throw InvalidArgument(path + ":" + std::to_string(error.source().begin.line) +
                          ": is not TOML: " + std::string(error.description()));
  }
}

}  // namespace

void apply_config_file(CLI::App& command, const std::string& path) {
  const toml::table table = parse(path);
  for (const auto& [key, node] : table) {
    const std::string name(key.str()), where = path + ":" + std::to_string(node.source().begin.line) + ": ";
    CLI::Option* option = command.get_option_no_throw("--" + name);
    require(option != nullptr && name != "config" && name != "help" && !name.starts_with("no-"), [&] {
      return where + "unknown key \"" + name + "\" (" + full_name(command) + " --help lists the options)";
    });
    try {
      set_option(*option, node);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(where + name + ": " + error.what());
    }
  }
}

}  // namespace adjoin::cli
