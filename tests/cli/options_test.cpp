#include "adjoin/cli/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "adjoin/base/error.hpp"
#include "adjoin/cli/command_line.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::cli {
namespace {

using test::message_of;
using test::put;
using test::TemporaryFolder;
using ::testing::HasSubstr;

/// What `adjoin run ARGUMENTS` understands, with all options of a configuration.
train::Configuration understood(std::vector<std::string> arguments) {
  Program program;
  std::optional<train::Configuration> result;
  std::shared_ptr<GivenConfiguration> given;
  CLI::App* command = add_command(program, program.app, "run", "", [&] { result = given->resolve(); });
  given = add_configuration_options(*command, {"Data", "Model", "Training", "Layout", "Output"});
  arguments.insert(arguments.begin(), "run");
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  program.app.parse(arguments);
  program.action();
  return *result;
}

TEST(Options, not_given_take_the_presets_values) {
  EXPECT_EQ(understood({}), train::configuration_of("small"));
  EXPECT_EQ(understood({"--preset", "bert-large"}), train::configuration_of("bert-large"));
}

TEST(Options, given_win_over_the_preset_wherever_they_stand) {
  train::Configuration expected = train::configuration_of("tiny");
  expected.layers = 3;
  expected.lr = 0.25;
  expected.final_norm = false;
  expected.threads_per_rank = 2;
  EXPECT_EQ(
      understood({"--layers", "3", "--lr=0.25", "--preset", "tiny", "--no-final-norm", "--threads-per-rank", "2"}),
      expected);
}

TEST(Options, given_win_also_with_the_default_value_of_another_preset) {
  EXPECT_EQ(understood({"--preset", "bert-base", "--hidden", "384"}).hidden, 384);
  EXPECT_EQ(understood({"--preset", "bert-base", "--heads", "4"}).heads, 4);  // 4 is the default preset's
}

TEST(Options, out_of_range_are_refused) {
  EXPECT_THAT(message_of<InvalidArgument>([] {
                understood({"--tp", "8"});
              }),
              HasSubstr("--tp 8 is more than --heads 4"));
  EXPECT_THROW(understood({"--batch", "many"}), InvalidArgument);
  EXPECT_THROW(understood({"--batch", "99999999999999999999"}), InvalidArgument);
  EXPECT_THROW(understood({"--bach", "1"}), CLI::ParseError);
}

TEST(Options, that_are_numbers_are_decimal) {
  EXPECT_EQ(understood({"--batch", "010"}).batch, 10);
  EXPECT_EQ(understood({"--lr", "1.5e-2"}).lr, 0.015);
  EXPECT_EQ(understood({"--lr", ".5"}).lr, 0.5);
  for (const char* text : {"", "many", "0x10", "0b1", "1e3", "3.5", " 5", "5 ", "+5", "1_000", "1'000", "5m"})
    EXPECT_EQ(message_of<InvalidArgument>([&] {
                understood({"--batch", text});
              }),
              "--batch is " + std::string(*text ? text : "empty") + ", expected a whole decimal number");
  for (const char* text : {"", "0x1p3", "1,5", " .5", "1e", "5%"})
    EXPECT_EQ(message_of<InvalidArgument>([&] {
                understood({"--lr", text});
              }),
              "--lr is " + std::string(*text ? text : "empty") + ", expected a decimal number");
  EXPECT_THAT(message_of<InvalidArgument>([] {
                understood({"--batch", "99999999999999999999"});
              }),
              HasSubstr("expected a whole decimal number of fewer digits"));
  for (const char* text : {"nan", "inf", "-1"})
    EXPECT_THAT(message_of<InvalidArgument>([&] { understood({"--lr", text}); }), HasSubstr("expected 0 to 1000"));
}

TEST(Options, not_given_take_a_resumed_runs_values) {
  const TemporaryFolder folder;
  train::Configuration saved = train::configuration_of("tiny");
  saved.layers = 3;
  saved.epochs = 7;
  saved.tp = 4;
  saved.out = "runs/elsewhere";
  std::filesystem::create_directory(folder / "checkpoint");
  put(folder / "checkpoint" / "config.json", to_json(saved).dump());
  put(folder / "checkpoint" / "state.json", "{}");

  train::Configuration expected = saved;
  expected.resume = expected.out = folder.path().string();
  EXPECT_EQ(understood({"--resume", expected.resume}), expected);
  expected.tp = 2;
  expected.epochs = 9;
  expected.out = "new";
  EXPECT_EQ(understood({"--tp", "2", "--resume", expected.resume, "--epochs", "9", "--out", "new", "--layers", "3"}),
            expected);
  EXPECT_THAT(message_of<InvalidArgument>([&] {
                understood({"--resume", expected.resume, "--layers", "2"});
              }),
              HasSubstr("--layers 2: a resumed run keeps its own"));
}

TEST(Options, leave_a_resumed_runs_numbers_of_sums_unless_they_are_given) {
  const TemporaryFolder folder;
  train::Configuration saved = train::configuration_of("tiny");
  saved.same_bits = "lanes=8,leaves=2,features=4";
  std::filesystem::create_directory(folder / "checkpoint");
  put(folder / "checkpoint" / "config.json", to_json(saved).dump());
  put(folder / "checkpoint" / "state.json", "{}");
  const auto resumed = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--resume", folder.path().string()});
    return understood(more).same_bits;
  };
  EXPECT_EQ(resumed({}), saved.same_bits);
  EXPECT_EQ(resumed({"--same-bits"}), saved.same_bits);
  EXPECT_EQ(resumed({"--same-bits", "leaves=1"}), "lanes=8,leaves=1,features=4");
}

TEST(Options, with_resume_auto_are_those_of_the_run_in_out_where_it_has_a_checkpoint) {
  const TemporaryFolder folder;
  const std::string out = folder.path().string();
  const std::vector<std::string> given{"--resume", "auto", "--out", out, "--preset", "tiny", "--epochs", "9"};
  train::Configuration expected = train::configuration_of("tiny");
  expected.epochs = 9;
  expected.out = out;
  EXPECT_EQ(understood(given), expected);

  train::Configuration saved = train::configuration_of("tiny");
  saved.batch = 5;
  saved.overwrite = true;
  std::filesystem::create_directory(folder / "checkpoint.next");  // as a crash between its renames leaves it
  put(folder / "checkpoint.next" / "config.json", to_json(saved).dump());
  put(folder / "checkpoint.next" / "state.json", "{}");
  expected.resume = out;
  expected.batch = 5;
  EXPECT_EQ(understood(given), expected);
  EXPECT_THAT(message_of<InvalidArgument>([] {
                understood({"--resume", "auto"});
              }),
              HasSubstr("--resume auto continues the run in --out, so --out is needed"));
}

class ConfigFile : public testing::Test {
 protected:
  train::Configuration with(const std::string& toml, std::vector<std::string> arguments = {}) {
    put(path(), toml);
    arguments.insert(arguments.begin(), {"--config", path()});
    return understood(arguments);
  }
  std::string refusal(const std::string& toml) {
    return message_of<InvalidArgument>([&] { with(toml); });
  }
  std::string path() const { return (folder_ / "run.toml").string(); }
  TemporaryFolder folder_;
};

TEST_F(ConfigFile, sets_options_of_every_type) {
  train::Configuration expected = train::configuration_of("tiny");
  expected.data = "reviews # of films, \"quoted\"";
  expected.layers = 5;
  expected.lr = 1e-4;
  expected.clip = 2;
  expected.final_norm = false;
  expected.bucket = true;
  expected.eval_every = 1000;
  EXPECT_EQ(with(R"(# a comment
preset = "tiny"
data = 'reviews # of films, "quoted"'   # another
layers = 5
lr = 1e-4
clip = 2
final-norm = false
bucket = true
eval-every = 1_000
)"),
            expected);
}

TEST_F(ConfigFile, sets_lists) {
  EXPECT_EQ(with("class-weights = [1, 2.5]\n").class_weights, "1,2.5");
  EXPECT_EQ(with("class-weights = [\n  \"3\",\n  4\n]\n").class_weights, "3,4");
  EXPECT_THAT(refusal("class-weights = [[1], 2]\n"),
              HasSubstr(path() + ":1: class-weights: expected a list of numbers"));
  EXPECT_THAT(refusal("class-weights = [true]\n"), HasSubstr("class-weights: expected a list of numbers"));
}

TEST_F(ConfigFile, sets_flags_by_their_negations_too) {
  EXPECT_FALSE(with("no-bucket = true\n").bucket);
  EXPECT_TRUE(with("no-bucket = false\n").bucket);
  EXPECT_TRUE(with("no-bucket = true\n", {"--bucket"}).bucket);
}

TEST_F(ConfigFile, loses_to_the_command_line) {
  const auto configuration = with("layers = 5\nfinal-norm = false\nlr = 0.5\n", {"--layers", "7", "--final-norm"});
  EXPECT_EQ(configuration.layers, 7);
  EXPECT_TRUE(configuration.final_norm);
  EXPECT_EQ(configuration.lr, 0.5);
}

TEST_F(ConfigFile, may_say_true_or_a_text_for_an_option_that_may_stand_alone) {
  const std::string numbers = with("same-bits = true\nbatch = 8\n").same_bits;
  EXPECT_EQ(numbers, understood({"--same-bits", "--batch", "8"}).same_bits);
  EXPECT_TRUE(numbers.starts_with("lanes="));
  EXPECT_EQ(with("same-bits = false\n").same_bits, "off");
  EXPECT_THAT(with("same-bits = \"lanes=3\"\n").same_bits, HasSubstr("lanes=3,"));
  EXPECT_THAT(with("same-bits = [\"lanes=3\", \"leaves=2\"]\n").same_bits, HasSubstr("lanes=3,leaves=2,"));
}

TEST_F(ConfigFile, is_refused_with_the_line_of_what_is_wrong) {
  EXPECT_THAT(refusal("layers = 2\nlairs = 3\n"), HasSubstr(path() + ":2: unknown key \"lairs\""));
  EXPECT_THAT(refusal("layers = 2\neval_every = 3\n"), HasSubstr("unknown key \"eval_every\""));
  EXPECT_THAT(refusal("\nlayers = \"two\"\n"), HasSubstr(path() + ":2: layers: "));
  EXPECT_THAT(refusal("layers = 2.5\n"), HasSubstr(path() + ":1: layers: "));
  EXPECT_THAT(refusal("layers = true\n"), HasSubstr("layers: expected a string or a number"));
  EXPECT_THAT(refusal("layers = [1, 2]\n"), HasSubstr(path() + ":1: layers: --layers is 1,2, expected a whole"));
  EXPECT_THAT(refusal("layers = 1979-05-27\n"), HasSubstr("layers: expected a string, a number or a boolean"));
  EXPECT_THAT(refusal("final-norm = 1\n"), HasSubstr("final-norm: expected true or false"));
  EXPECT_THAT(refusal("config = \"other\"\n"), HasSubstr("unknown key \"config\""));
  EXPECT_THAT(refusal("no-final-norm = 1\n"), HasSubstr("no-final-norm: expected true or false"));
  EXPECT_THAT(refusal("no-bucket = true\nbucket = true\n"), HasSubstr("no-bucket: bucket is given too"));
  EXPECT_THAT(refusal("no-layers = true\n"), HasSubstr("unknown key \"no-layers\""));
  EXPECT_THAT(refusal("[sizes]\nlayers = 2\n"), HasSubstr("unknown key \"sizes\""));
  EXPECT_THAT(refusal("layers = 2\nlayers 3\n"), HasSubstr(path() + ":2: is not TOML: "));
  EXPECT_THAT(refusal("layers = 2\nlayers = 3\n"), HasSubstr(path() + ":2: is not TOML: "));
}

TEST_F(ConfigFile, is_named_with_the_line_of_a_value_that_is_refused_later) {
  const auto error = [&](const std::string& command, const std::string& toml, std::vector<std::string> words = {}) {
    put(path(), toml);
    Program program;
    add_commands(program);
    words.insert(words.begin(), {command, "--config", path()});
    parse(program, words);
    return message_of<InvalidArgument>([&] { act(program); });
  };
  const std::string in_line_2 = path() + ":2: ";
  EXPECT_EQ(error("train", "data = \"sample\"\nlr = nan\n"), in_line_2 + "--lr is nan, expected 0 to 1000");
  EXPECT_EQ(error("train", "data = \"sample\"\nlayers = 0\n"), in_line_2 + "--layers is 0, expected 1 to 10000");
  EXPECT_EQ(error("train", "data = \"sample\"\ndropout = 1\n"), in_line_2 + "--dropout is 1, expected less than 1");
  EXPECT_EQ(error("train", "data = \"sample\"\nclass-weights = [1, 0]\n"),
            in_line_2 + "--class-weights: a weight is 0, expected a number above 0 and up to 1000000000");
  EXPECT_EQ(error("train", "layers = 1\ndata = \"/nowhere\"\n", {"--dry-run"}),
            in_line_2 + "--data /nowhere: no such file or folder");
  EXPECT_EQ(error("evaluate", "model = \"m\"\nbatch = -1\n"), in_line_2 + "--batch is -1, expected 0 or more");
  EXPECT_EQ(error("train", "{\"model\": \"classifier\", \"layers\": 0}"),
            path() + ": --layers is 0, expected 1 to 10000");
  EXPECT_EQ(error("train", "data = \"sample\"\nlr = 1\n", {"--lr", "nan"}), "--lr is nan, expected 0 to 1000");
}

TEST_F(ConfigFile, proposes_the_key_that_was_meant) {
  EXPECT_THAT(refusal("eval_every = 3\n"), HasSubstr("(did you mean eval-every?)"));
  EXPECT_THAT(refusal("lairs = 3\n"), HasSubstr("(did you mean layers?)"));
}

TEST_F(ConfigFile, may_be_the_configuration_of_a_run_but_for_where_that_wrote) {
  train::Configuration run = train::configuration_of("gpt-tiny");
  run.data = "texts";
  run.key_heads = 2;
  run.final_norm = true;
  run.lr = 1.0 / 3;
  run.eval_every = 7;
  run.dp = 2;
  train::Configuration expected = run;
  run.out = "runs/a";
  run.overwrite = true;
  run.resume = "runs/b";
  expected.epochs = 3;
  EXPECT_EQ(with(to_json(run).dump(2), {"--epochs", "3"}), expected);
  EXPECT_THAT(refusal("{\"lairs\": 2}"), HasSubstr(path() + ": the configuration has an unknown key: lairs"));
  EXPECT_THAT(refusal("{\"layers\": \"2\"}"), HasSubstr("layers has the wrong type"));
  EXPECT_THAT(refusal("{\"layers\": "), HasSubstr(path() + ": is not JSON"));
}

TEST_F(ConfigFile, that_is_missing_is_named) {
  EXPECT_THAT(message_of<InvalidArgument>([&] {
                understood({"--config", path()});
              }),
              HasSubstr("run.toml: cannot be read"));
  EXPECT_THAT(message_of<InvalidArgument>([&] {
                understood({"--config", folder_.path().string()});
              }),
              HasSubstr(": cannot be read"));
}

TEST_F(ConfigFile, may_be_empty) {
  EXPECT_EQ(with(""), train::configuration_of("small"));
}

TEST(PresetTable, names_every_option_that_presets_decide) {
  for (const train::Field& field : train::fields()) {
    if (!train::preset_decides(field.name) || field.name == "model") continue;  // of which each has a table
    EXPECT_THAT(preset_table(), HasSubstr("  " + train::option_of(field.name).substr(2) + " ")) << field.name;
  }
}

}  // namespace
}  // namespace adjoin::cli
