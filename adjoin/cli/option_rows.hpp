#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "adjoin/base/text.hpp"
#include "adjoin/cli/numbers.hpp"

namespace adjoin::cli {

/// An option of a command: what adds it, and what is checked before the command does its work. The functions below make one;
/// the value that its variable has then is the default, which the help text gets in brackets.
struct OptionRow {
  std::function<CLI::Option*(CLI::App&)> add;
  std::function<void()> check = {};
};

/// An option whose value `read` is called with.
OptionRow option(const std::string& name, const char* what, const std::string& help,
                 const std::function<void(const std::string&)>& read);

/// An option whose value is a text. If "" means that it is not given, it cannot be given. Where it is required, the command
/// refuses to work without it: "--data is needed".
OptionRow text(const std::string& name, std::string& variable, const char* what, const std::string& help,
               bool is_required = false);
OptionRow texts(const std::string& name, std::vector<std::string>& variable, const char* what, const std::string& help);

/// An option whose value is a file to write. Throws (when it is read): InvalidArgument for ""
OptionRow file(const std::string& name, std::string& variable, const std::string& help);

OptionRow flag(const std::string& name, bool& variable, const std::string& help);

/// --json, by which a command's report is JSON; `what` continues "Print one JSON ".
OptionRow json_row(bool& variable, const std::string& what);

/// An option whose value is exactly one decimal number, whole for an int64_t: not "", not "0x10", not "3 " ("010" is ten).
/// Throws (when it is read): InvalidArgument, with the name of the option; (when the command runs) for one out of the range
template <class Variable>
OptionRow number(const std::string& name, Variable& variable, std::string help, std::optional<int64_t> least = {},
                 std::optional<int64_t> most = {}) {
  using Number = typename decltype(std::optional(variable))::value_type;
  if constexpr (std::is_same_v<Variable, Number>) help += " [" + shortest_text(static_cast<double>(variable)) + "]";
  constexpr const char* what = std::is_same_v<Number, double> ? "NUMBER" : "INTEGER";
  OptionRow row = option(name, what, help,
                         [&variable, name](const std::string& value) { variable = number_from<Number>(value, name); });
  if (least)
    row.check = [=, &variable] {
      const auto value = static_cast<int64_t>(std::optional(variable).value_or(static_cast<Number>(*least)));
      most ? check_range(name, value, *least, *most) : check_least(name, value, *least);
    };
  return row;
}

/// Throws: InvalidArgument for the empty value of an option
void check_not_empty(std::string_view option, std::string_view value);

}  // namespace adjoin::cli
