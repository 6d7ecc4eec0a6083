#include "adjoin/cli/command_line.hpp"

#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"

namespace adjoin::cli {
namespace {

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_min() > 0;
}

/// The option whose name this is: no positional one, whose names have no dashes.
const CLI::Option* option_named(const CLI::App& command, const std::string& name) {
  return name.starts_with('-') ? command.get_option_no_throw(name) : nullptr;
}

bool is_option_with_value(const CLI::App& command, const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == word.npos) return false;
  const CLI::Option* option = option_named(command, word.substr(0, equals));
  return option != nullptr && takes_value(*option);
}

/// That no option which wants a value is followed by another option, which CLI11 would take for the value.
void check_values(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  for (size_t i = 0; i + 1 < words.size() && words[i] != "--"; ++i) {
    for (const CLI::App* nested : command->get_subcommands([](const CLI::App*) { return true; }))
      if (nested->get_name() == words[i]) command = nested;
    const CLI::Option* option = option_named(*command, words[i]);
    if (option == nullptr || !takes_value(*option)) continue;
    require(option_named(*command, words[i + 1]) == nullptr,
            [&] { return words[i] + " needs a value, got the option " + words[i + 1]; });
    ++i;
  }
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
      (is_option_with_value(command, words[i]) ? result.options : result.texts).push_back(words[i]);
    } else if (takes_value(*option) && i + 1 < words.size() && !words[i + 1].empty()) {
      result.options.push_back(words[i] + "=" + words[i + 1]);  // in one word, which nothing can take for another
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
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    program.app.parse(std::move(words));
  } catch (const CLI::ExtrasError&) {  // whose own text has the words from the last to the first
    throw InvalidArgument("unexpected " + joined(program.app.remaining(/*recurse=*/true), " ") +
                          "; --help lists what there is");
  }
}

}  // namespace adjoin::cli
