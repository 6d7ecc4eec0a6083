#include "adjoin/cli/option_rows.hpp"

#include "adjoin/base/error.hpp"
#include "adjoin/cli/options.hpp"

namespace adjoin::cli {
namespace {

std::string with_default(const std::string& help, const std::string& value) {
  return value.empty() ? help : help + " [" + value + "]";
}

}  // namespace

void check_not_empty(std::string_view option, std::string_view value) {
  require(!value.empty(), [&] { return std::string(option) + " is empty, expected a value"; });
}

OptionRow option(const std::string& name, const char* what, const std::string& help,
                 const std::function<void(const std::string&)>& read) {
  return {[=](CLI::App& command) { return command.add_option_function(name, read, help)->option_text(what); }};
}

OptionRow text(const std::string& name, std::string& variable, const char* what, const std::string& help,
               bool is_required) {
  const bool may_be_empty = !variable.empty() || !name.starts_with("--");
  OptionRow row = option(name, what, with_default(help, variable) + (is_required ? " (required)" : ""),
                         [=, &variable](const std::string& value) {
                           if (!may_be_empty) check_not_empty(name, value);
                           variable = value;
                         });
  if (is_required) row.check = [=, &variable] { require_given(variable, name.starts_with("--") ? name : what); };
  return row;
}

OptionRow texts(const std::string& name, std::vector<std::string>& variable, const char* what,
                const std::string& help) {
  return {[=, &variable](CLI::App& command) { return command.add_option(name, variable, help)->option_text(what); }};
}

OptionRow file(const std::string& name, std::string& variable, const std::string& help) {
  return option(name, "FILE", with_default(help, variable), [name, &variable](const std::string& value) {
    require(!value.empty(), [&] { return name + " is empty, expected a file's name"; });
    variable = value;
  });
}

OptionRow flag(const std::string& name, bool& variable, const std::string& help) {
  return {[=, &variable](CLI::App& command) { return command.add_flag(name, variable, with_default(help, "false")); }};
}

OptionRow json_row(bool& variable, const std::string& what) {
  return flag("--json", variable, "Print one JSON " + what);
}

}  // namespace adjoin::cli
