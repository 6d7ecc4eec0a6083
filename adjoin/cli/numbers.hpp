#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace adjoin::cli {

/// An option whose value is one whole decimal number, and nothing else: neither "", nor "0x10", nor "3 " (and "010" is
/// ten).
/// Throws (when it is read): InvalidArgument that names the option.
CLI::Option* add_number(CLI::App& command, const std::string& name, int64_t& variable, const std::string& help);

/// The same for a decimal number that may have a fraction and a power of ten.
CLI::Option* add_number(CLI::App& command, const std::string& name, double& variable, const std::string& help);
CLI::Option* add_number(CLI::App& command, const std::string& name, std::optional<double>& variable,
                        const std::string& help);
CLI::Option* add_number(CLI::App& command, const std::string& name, std::optional<int64_t>& variable,
                        const std::string& help);

}  // namespace adjoin::cli
