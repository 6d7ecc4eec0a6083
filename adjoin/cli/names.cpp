#include "adjoin/cli/names.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace adjoin::cli {
namespace {

/// The letter in lower case; the dash counts as an underscore.
char plain(char letter) {
  return letter == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
}

/// How many letters must be inserted, removed, replaced, or swapped with their neighbour.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last, last, row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (plain(a[i - 1]) != plain(b[j - 1]))});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return (parent == nullptr ? "" : full_name(*parent) + " ") + command.get_name();
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> command_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* nested : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(nested->get_name());
  return names;
}

std::string did_you_mean(std::string_view typed, const std::vector<std::string>& known) {
  constexpr size_t kShortestBeginning = 3;
  const std::string_view letters = typed.substr(std::min(typed.find_first_not_of('-'), typed.size()));
  const std::string* nearest = nullptr;
  size_t least = (letters.size() + 1) / 3 + 1;  // names farther away are not suggested
  for (const std::string& name : known) {
    const bool is_beginning = letters.size() >= kShortestBeginning && name.starts_with(typed);
    const size_t far = is_beginning ? 1 : distance(typed, name);
    if (far < least) least = far, nearest = &name;
  }
  return nearest == nullptr ? "" : " (did you mean " + *nearest + "?)";
}

}  // namespace adjoin::cli
