#pragma once

#include <CLI/App.hpp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/train/workers.hpp"

namespace adjoin::cli {

/// An option whose value is a text.
template <class Variable>
CLI::Option* add_text(CLI::App& command, const std::string& name, Variable& variable, const char* what,
                      const std::string& help) {
  return command.add_option(name, variable, help)->option_text(what);
}

/// An option whose value is a file to write. Throws (when it is read): InvalidArgument for ""
CLI::Option* add_file(CLI::App& command, const std::string& name, std::string& variable, const std::string& help);

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

using train::kMostThreads;

/// "8", from `least` to `most`.
/// Throws: InvalidArgument that names the option, and `word` where the caller takes one in place of a number.
int64_t number_of(std::string_view text, std::string_view option, int64_t least, int64_t most,
                  std::string_view word = "");

/// The same for a number that has been read, and for one that may be as large as it likes.
void check_range(std::string_view option, int64_t value, int64_t least, int64_t most);
void check_least(std::string_view option, int64_t value, int64_t least);

/// An option and the number that it has.
struct Factor {
  std::string_view option;
  int64_t value;
};

/// Checks that numbers above 0 multiply to at most `most`.
/// Throws: InvalidArgument that names them all, or the first that is none above 0 or is itself above `most`.
void check_product(std::initializer_list<Factor> factors, int64_t most);

/// The place of `text` among `names`.
/// Throws: InvalidArgument that names the option, and the names in their order.
size_t check_choice(std::string_view option, std::string_view text, std::span<const std::string_view> names);

/// The ranks that a command is asked for: up to kMostThreads threads or, under mpirun, the job's.
/// Throws: InvalidArgument that names the option --ranks.
void check_ranks(int64_t ranks);

/// "8", "2,3,8" or "4..4096", whose numbers double from the first on up to the last; each from `least`, which is positive, to `most`.
/// Throws: InvalidArgument that names the option.
std::vector<int64_t> numbers_of(std::string_view text, std::string_view option, int64_t least, int64_t most);

/// "4x4x3": a number a dim, each from `least` to `most`.
/// Throws: InvalidArgument that names the option.
std::vector<int64_t> numbers_by_dim(std::string_view text, std::string_view option, int64_t least, int64_t most);

}  // namespace adjoin::cli
