#include "adjoin/cli/command_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"
#include "adjoin/cli/names.hpp"
#include "adjoin/cli/options.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Words separated(const std::vector<std::string>& words) {
  Program program;
  add_predict(program);
  return separate_texts(*program.takes_texts, words);
}

TEST(Texts, are_all_words_that_are_no_options) {
  const std::vector<std::string> texts = {"doctor", "[a, b]", "-bad film",  "-hm", "-",    "",
                                          "text",   "a\nb",   "\"quoted\"", "=x",  "train"};
  std::vector<std::string> words = texts;
  words.insert(words.begin() + 3, {"--model", "runs/a"});
  words.push_back("--json");
  const Words apart = separated(words);
  EXPECT_EQ(apart.texts, texts);
  EXPECT_THAT(apart.options, ElementsAre("--model=runs/a", "--json"));
}

TEST(Texts, do_not_begin_as_an_option_does_unless_behind_two_dashes) {
  const auto refusal = [](const std::string& word) {
    return test::message_of<InvalidArgument>([&] { separated({"good", word}); });
  };
  EXPECT_EQ(refusal("--modell"),
            "unexpected --modell (did you mean --model?); adjoin predict --help lists what there is; a text that "
            "begins with two "
            "dashes comes after --");
  EXPECT_THAT(refusal("--jsons"), HasSubstr("(did you mean --json?)"));
  for (const char* word : {"--model good", "--json=x", "--bad=x", "--zzz"})
    EXPECT_THAT(refusal(word), HasSubstr("unexpected " + std::string(word))) << word;
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

TEST(NearNames, are_a_few_letters_away_or_longer) {
  const std::vector<std::string> known = {"--batch", "--epochs", "--threads-per-rank", "--tp", "--help"};
  EXPECT_EQ(did_you_mean("--bach", known), " (did you mean --batch?)");
  EXPECT_EQ(did_you_mean("--ephocs", known), " (did you mean --epochs?)");  // two neighbours exchanged
  EXPECT_EQ(did_you_mean("--threads", known), " (did you mean --threads-per-rank?)");
  EXPECT_EQ(did_you_mean("--Threads_per_rank", known), " (did you mean --threads-per-rank?)");
  EXPECT_EQ(did_you_mean("--tpp", known), " (did you mean --tp?)");
  for (const char* far : {"--temp", "--x", "", "--", "--patches"}) EXPECT_EQ(did_you_mean(far, known), "") << far;
}

}  // namespace
}  // namespace adjoin::cli
