#include "adjoin/cli/numbers.hpp"

#include <charconv>
#include <string_view>

#include "adjoin/base/error.hpp"

namespace adjoin::cli {
namespace {

template <class Number>
constexpr const char* kExpected = "a decimal number";
template <>
constexpr const char* kExpected<int64_t> = "a whole decimal number";

template <class Number>
Number number_from(std::string_view text, const std::string& name) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc() && end == text.data() + text.size(), [&] {
    return name + " is " + (text.empty() ? "empty" : std::string(text)) + ", expected " + kExpected<Number> +
           (error == std::errc::result_out_of_range ? " of fewer digits" : "");
  });
  return number;
}

template <class Number, class Variable>
CLI::Option* add(CLI::App& command, const std::string& name, Variable& variable, const std::string& help) {
  const std::function<void(const std::string&)> read = [&variable, name](const std::string& text) {
    variable = number_from<Number>(text, name);
  };
  return command.add_option_function(name, read, help);
}

}  // namespace

CLI::Option* add_number(CLI::App& command, const std::string& name, int64_t& variable, const std::string& help) {
  return add<int64_t>(command, name, variable, help)->option_text("INTEGER");
}

CLI::Option* add_number(CLI::App& command, const std::string& name, double& variable, const std::string& help) {
  return add<double>(command, name, variable, help)->option_text("NUMBER");
}

CLI::Option* add_number(CLI::App& command, const std::string& name, std::optional<double>& variable,
                        const std::string& help) {
  return add<double>(command, name, variable, help)->option_text("NUMBER");
}

CLI::Option* add_number(CLI::App& command, const std::string& name, std::optional<int64_t>& variable,
                        const std::string& help) {
  return add<int64_t>(command, name, variable, help)->option_text("INTEGER");
}

}  // namespace adjoin::cli
