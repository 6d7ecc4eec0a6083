#include "adjoin/cli/command_line.hpp"

#include <algorithm>
#include <cctype>
#include <map>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/names.hpp"
#include "adjoin/cli/option_rows.hpp"
#include "adjoin/train/failures.hpp"

namespace adjoin::cli {
namespace {

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_min() > 0;
}

/// The option with this name, except positional ones, whose names have no dashes.
const CLI::Option* option_named(const CLI::App& command, const std::string& name) {
  return name.starts_with('-') ? command.get_option_no_throw(name) : nullptr;
}

bool is_option_with_value(const CLI::App& command, const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == word.npos) return false;
  const CLI::Option* option = option_named(command, word.substr(0, equals));
  return option != nullptr && takes_value(*option);
}

/// Checks that no value is given twice, and that none is missing where CLI11 would use the next option as the value.
void check_values(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  std::map<const CLI::Option*, std::string> given;
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    for (const CLI::App* nested : command->get_subcommands([](const CLI::App*) { return true; }))
      if (nested->get_name() == words[i]) command = nested;
    const std::string name = words[i].substr(0, words[i].find('='));
    const CLI::Option* option = option_named(*command, name);
    if (option == nullptr) continue;
    const auto [earlier, is_first] = given.try_emplace(option, name);
    require(is_first,
            [&] { return name + (earlier->second == name ? " is given twice" : " contradicts " + earlier->second); });
    if (!takes_value(*option)) {
      const std::string value = words[i].substr(name.size());
      if (option->get_items_expected_max() > 0 && value == "=") check_not_empty(name, "");  // CLI11 would take none
      require(value.empty() || value == "=true" || value == "=false" || option->get_items_expected_max() > 0,
              [&] { return words[i] + ": expected " + name + " alone, or with =true or =false"; });
      continue;
    }
    if (name != words[i]) continue;
    require(i + 1 < words.size(), [&] { return name + " needs a value"; });
    require(option_named(*command, words[i + 1]) == nullptr,
            [&] { return name + " needs a value, got the option " + words[i + 1]; });
    ++i;
  }
}

/// The command that the words have selected.
const CLI::App& chosen(const CLI::App& app) {
  const std::vector<CLI::App*> nested = app.get_subcommands();
  return nested.empty() ? app : chosen(*nested.back());
}

/// The error for words that nothing accepts.
std::string refusal_of(const CLI::App& command, const std::vector<std::string>& words) {
  const std::string help = "; " + full_name(command) + " --help lists ", &first = words.front();
  if (const std::vector<std::string> commands = command_names(command); !commands.empty() && !first.starts_with('-'))
    return "unknown command " + first + did_you_mean(first, commands) + help + "them";
  return "unexpected " + joined(words, " ") + did_you_mean(first.substr(0, first.find('=')), option_names(command)) +
         help + "what there is";
}

/// "--from " where a message begins with the value that was given to --from, as "/nowhere: there is no such folder" does.
std::string option_meant(const CLI::App& command, const std::string& message) {
  for (const CLI::Option* option : command.get_options())
    for (const std::string& value : option->count() > 0 ? option->results() : std::vector<std::string>())
      if (!value.empty() && !option->get_lnames().empty() && message.starts_with(value + ": "))
        return "--" + option->get_lnames().front() + " ";
  return "";
}

/// Where a file of --config has the option with which a message begins, as "--lr is nan" does: "run.toml:3: ".
std::string place_in_file(const GivenByFile& given, const std::string& message) {
  const auto is_of_name = [](char c) { return c == '-' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const auto end = std::ranges::find_if_not(message, is_of_name);
  const auto place = given.find(std::string(message.begin(), end));
  return place == given.end() ? "" : place->second;
}

}  // namespace

Words separate_texts(const CLI::App& command, const std::vector<std::string>& words) {
  Words result;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") {
      result.texts.insert(result.texts.end(), words.begin() + static_cast<int64_t>(i) + 1, words.end());
      break;
    }
    const CLI::Option* option = option_named(command, words[i]);
    if (option == nullptr) {
      require(!words[i].starts_with("--") || is_option_with_value(command, words[i]),
              [&] { return refusal_of(command, {words[i]}) + "; a text that begins with two dashes comes after --"; });
      (is_option_with_value(command, words[i]) ? result.options : result.texts).push_back(words[i]);
    } else if (takes_value(*option) && i + 1 < words.size() && !words[i + 1].empty()) {
      result.options.push_back(words[i] + "=" + words[i + 1]);  // joined into one word, which cannot be misread
      ++i;
    } else {
      result.options.push_back(words[i]);
    }
  }
  return result;
}

void parse(Program& program, std::vector<std::string> words) {
  check_values(program.app, words);
  if (program.takes_texts != nullptr && !words.empty() && words[0] == program.takes_texts->get_name()) {
    Words apart = separate_texts(*program.takes_texts, {words.begin() + 1, words.end()});
    words.resize(1);
    words.insert(words.end(), apart.options.begin(), apart.options.end());
    program.texts = std::move(apart.texts);
  }
  std::reverse(words.begin(), words.end());  // CLI11 expects them in this order
  try {
    program.app.parse(std::move(words));
  } catch (const CLI::ExtrasError&) {  // its own text has the words in reverse order
    throw InvalidArgument(refusal_of(chosen(program.app), program.app.remaining(/*recurse=*/true)));
  }
  require(program.action != nullptr,
          [&] { return "a command is needed; " + full_name(chosen(program.app)) + " --help lists them"; });
}

void act(const Program& program) {
  try {
    program.action();
  } catch (const Error& error) {
    if (dynamic_cast<const train::Advised*>(&error) != nullptr) throw;
    const std::string option = option_meant(chosen(program.app), error.what());
    const std::string place = place_in_file(program.given_by_file, option + error.what());
    if (option.empty() && place.empty()) throw;
    rethrow_led_by(place + option, std::current_exception());
  }
}

}  // namespace adjoin::cli
