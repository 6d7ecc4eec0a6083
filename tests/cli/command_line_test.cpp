#include "adjoin/cli/command_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adjoin/cli/options.hpp"

namespace adjoin::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Words separated(const std::vector<std::string>& words) {
  Program program;
  add_predict(program);
  return separate_texts(*program.takes_texts, words);
}

TEST(Texts, are_all_words_that_are_no_options) {
  const std::vector<std::string> texts = {"doctor",       "[a, b]",   "-bad film", "-hm",     "--modell",
                                          "--model good", "-",        "",          "text",    "a\nb",
                                          "\"quoted\"",   "--json=x", "=x",        "--bad=x", "train"};
  std::vector<std::string> words = texts;
  words.insert(words.begin() + 3, {"--model", "runs/a"});
  words.push_back("--json");
  const Words apart = separated(words);
  EXPECT_EQ(apart.texts, texts);
  EXPECT_THAT(apart.options, ElementsAre("--model=runs/a", "--json"));
}

TEST(Texts, are_all_words_after_two_dashes) {
  const Words apart = separated({"good", "--model=a=b", "--", "--model", "--json", "--", "--help"});
  EXPECT_THAT(apart.texts, ElementsAre("good", "--model", "--json", "--", "--help"));
  EXPECT_THAT(apart.options, ElementsAre("--model=a=b"));
}

TEST(Texts, are_not_the_values_of_options) {
  EXPECT_THAT(separated({"--model", "--json", "--config", "-x"}).options, ElementsAre("--model=--json", "--config=-x"));
  EXPECT_THAT(separated({"--model"}).options, ElementsAre("--model"));
  EXPECT_THAT(separated({"-h", "--help"}).texts, IsEmpty());
}

TEST(Texts, reach_the_command_as_they_are) {
  Program program;
  add_predict(program);
  add_doctor(program);
  parse(program, {"predict", "--model", "m", "doctor", "[a, b]", "-bad"});
  EXPECT_THAT(program.texts, ElementsAre("doctor", "[a, b]", "-bad"));
  EXPECT_TRUE(program.takes_texts->parsed());
  EXPECT_FALSE(program.app.get_subcommand("doctor")->parsed());
}

}  // namespace
}  // namespace adjoin::cli
