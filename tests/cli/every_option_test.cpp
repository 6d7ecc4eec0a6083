// Every option of every command, with values that it cannot have.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/cli/command_line.hpp"
#include "adjoin/cli/commands.hpp"
#include "adjoin/cli/names.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::cli {
namespace {

using ::testing::HasSubstr;
using CommandLine = std::vector<std::string>;

/// The commands with what else they need, so that nothing but the option is wrong. What they are to read is not there: so an
/// option that is checked only after that is found out.
std::map<std::string, CommandLine> commands(const std::string& out) {
  return {{"train", {"--data", "sample", "--out", out}},
          {"plan", {"--data", "sample", "--ranks", "2"}},
          {"evaluate", {"--model", "/nowhere", "--data", "sample"}},
          {"predict", {"--model", "/nowhere", "x"}},
          {"generate", {"--model", "/nowhere", "x"}},
          {"checkpoint", {"/nowhere"}},
          {"compare", {"/nowhere", "/nowhere"}},
          {"export", {"--model", "/nowhere", "--out", out}},
          {"tokenize", {"--data", "/nowhere", "--out", out}},
          {"program", {"/nowhere"}},
          {"bench step", {}},
          {"bench collectives", {}},
          {"bench pipeline", {"1f1b"}},
          {"doctor", {}},
          {"flight", {"/nowhere"}},
          {"collective", {"broadcast"}},
          {"layout", {"--shape", "4", "--grid", "2"}},
          {"pipeline", {"1f1b"}},
          {"report", {"/nowhere"}},
          {"watch", {"/nowhere"}}};
}

/// The commands that have none of their own, by their full names without the program's.
void collect_commands(const CLI::App& app, const std::string& prefix,
                      std::map<std::string, const CLI::App*>& commands) {
  const std::vector<std::string> nested = command_names(app);
  if (nested.empty()) commands.emplace(prefix, &app);
  for (const std::string& name : nested)
    collect_commands(*app.get_subcommand(name), prefix.empty() ? name : prefix + " " + name, commands);
}

/// What a command line is refused with.
std::string refusal_of_line(const CommandLine& words) {
  Program program;
  add_commands(program);
  try {
    parse(program, words);
    act(program);
  } catch (const InvalidArgument& error) {
    return error.what();
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "nothing";
}

CommandLine line_of_words(const std::string& command, CommandLine rest, const std::string& option,
                          const std::string& value) {
  for (size_t i = 0; i + 1 < rest.size(); ++i)
    if (rest[i] == option)
      rest.erase(rest.begin() + static_cast<int64_t>(i), rest.begin() + static_cast<int64_t>(i) + 2);
  CommandLine words;
  for (size_t at = 0; at < command.size();) {
    const size_t end = std::min(command.find(' ', at), command.size());
    words.push_back(command.substr(at, end - at));
    at = end + 1;
  }
  words.insert(words.end(), rest.begin(), rest.end());
  words.push_back(option);
  words.push_back(value);
  return words;
}

TEST(EveryOption, refuses_by_its_name_what_it_cannot_be) {
  const test::TemporaryFolder folder;
  Program program;
  add_commands(program);
  std::map<std::string, const CLI::App*> known;
  collect_commands(program.app, "", known);
  const std::map<std::string, CommandLine> others = commands((folder / "out").string());
  size_t options = 0;
  for (const auto& [name, command] : known) {
    ASSERT_TRUE(others.contains(name)) << name;
    const CommandLine& rest = others.at(name);
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_lnames().empty() || option->get_items_expected_min() == 0) continue;
      const std::string long_name = "--" + option->get_lnames().front(), what = option->get_option_text();
      CommandLine wrong{""};
      if (what == "INTEGER") wrong = {"", "1.5", "nan", "-7", "x"};
      if (what == "NUMBER") wrong = {"", "nan", "inf", "-7", "x"};
      if (what.find('|') != what.npos) wrong = {"", "x"};
      for (const std::string& value : wrong)
        EXPECT_THAT(refusal_of_line(line_of_words(name, rest, long_name, value)), HasSubstr(long_name))
            << name << " " << long_name << " '" << value << "'";
      ++options;
    }
  }
  EXPECT_GT(options, 250u);
}

TEST(EveryOption, that_is_a_flag_takes_no_value_but_true_or_false) {
  EXPECT_THAT(refusal_of_line({"checkpoint", "/nowhere", "--json=1x"}), HasSubstr("--json=1x: expected --json alone"));
  EXPECT_THAT(refusal_of_line({"checkpoint", "/nowhere", "--json=false"}),
              HasSubstr("/nowhere: there is no such folder"));
}

TEST(EveryOption, is_named_where_its_path_leads_nowhere) {
  const test::TemporaryFolder folder;
  const std::string out = (folder / "out").string();
  const CommandLine train{"train", "--data", "sample", "--out", out};
  const auto with = [](CommandLine words, const CommandLine& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  EXPECT_EQ(refusal_of_line({"evaluate", "--model", "/nowhere", "--data", "sample"}),
            "--model /nowhere: there is no such folder");
  EXPECT_EQ(refusal_of_line({"train", "--data", "/nowhere", "--out", out}), "--data /nowhere: no such file or folder");
  EXPECT_EQ(refusal_of_line(with(train, {"--from", "/nowhere"})), "--from /nowhere: there is no such folder");
  EXPECT_EQ(refusal_of_line({"train", "--resume", "/nowhere"}), "--resume /nowhere: there is no such folder");
  EXPECT_THAT(refusal_of_line(with(train, {"--vocab", "/nowhere"})), HasSubstr("--vocab /nowhere: cannot open"));
  EXPECT_EQ(refusal_of_line(with(train, {"--pipeline", "/no.csv", "--pp", "2"})),
            "--pipeline /no.csv: the file cannot be opened");
  EXPECT_EQ(refusal_of_line(with(train, {"--config", "/nowhere"})), "--config /nowhere: cannot be read");
}

}  // namespace
}  // namespace adjoin::cli
