#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "adjoin/task/configuration.hpp"
#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

using test::Outcome;
using test::put;
using test::run;
using test::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Program, explains_every_option_of_train) {
  const Outcome help = run("train --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.err, "");
  for (const train::Field& field : train::fields()) EXPECT_THAT(help.out, HasSubstr(train::option_of(field.name)));
  EXPECT_THAT(help.out, HasSubstr("--config"));
}

TEST(Program, explains_every_subcommand) {
  const Outcome help = run("--help");
  EXPECT_EQ(help.code, 0);
  for (const char* name : {"train", "evaluate", "predict", "tokenize", "bench", "collective", "layout", "doctor"}) {
    EXPECT_THAT(help.out, HasSubstr(name));
    EXPECT_EQ(run(std::string(name) + " --help").code, 0);
  }
  EXPECT_THAT(run("bench step --help").out, HasSubstr("--json"));
  EXPECT_THAT(run("bench collectives --help").out, HasSubstr("--json"));
  EXPECT_THAT(run("--version").out, StartsWith("adjoin "));
}

TEST(Program, answers_a_bad_command_line_with_one_line_and_2) {
  const struct {
    std::string arguments, expected;
  } cases[] = {
      {"", "a command is needed"},
      {"trian", "unknown command trian (did you mean train?); adjoin --help lists them"},
      {"bench", "a command is needed; adjoin bench --help lists them"},
      {"bench stp", "unknown command stp (did you mean step?); adjoin bench --help lists them"},
      {"train", "--data is needed"},
      {"train --data sample", "--out is needed"},
      {"train --data sample --out x --batch many", "many"},
      {"train --data sample --out x --bach 3", "unexpected --bach 3 (did you mean --batch?)"},
      {"train --batch 2 --batch=3", "--batch is given twice"},
      {"train --sp --sp", "--sp is given twice"},
      {"train --bucket --no-bucket", "--no-bucket contradicts --bucket"},
      {"train --data", "--data needs a value"},
      {"train --data sample --same-bits=", "--same-bits is empty, expected a value"},
      {"train --data sample --same-bits ''", "--same-bits is empty, expected a value"},
      {"predict --model a --jsons", "unexpected --jsons (did you mean --json?)"},
      {"train --data sample --out x --batch 0", "--batch is 0"},
      {"train --data sample --out x --hidden 10 --heads 3", "--hidden 10 is not divisible by --heads 3"},
      {"train --data sample --out x --tp 5", "--tp 5 is more than --heads 4"},
      {"train --data sample --out x --preset huge", "tiny, small, bert-base, bert-large"},
      {"train --data sample --out x --precision fp8", "fp64, fp32, bf16, fp16"},
      {"evaluate --model x --zap 3 --data y z", "unexpected --zap 3 z; adjoin evaluate --help lists what there is"},
      {"train --cp-method --out x", "--cp-method needs a value, got the option --out"},
      {"bench step --recompute --steps 3", "--recompute needs a value, got the option --steps"},
      {"train --config /none/run.toml", "/none/run.toml: cannot be read"},
      {"evaluate --data x", "--model is needed"},
      {"evaluate --model x", "x: there is no such folder"},
      {"evaluate --model x --data y --dp -1", "--dp is -1"},
      {"predict word", "--model is needed"},
      {"tokenize", "--vocab is needed"},
      {"tokenize --vocab /none/vocab.txt", "/none/vocab.txt"},
      {"bench step --steps -1", "--steps is -1"},
      {"bench step --dropout 2", "--dropout is 2"},
      {"bench step --steps ''", "--steps is empty, expected a whole decimal number"},
      {"evaluate --model x --data y --samples 0x10", "--samples is 0x10, expected a whole decimal number"},
      {"doctor --timeout 1m", "--timeout is 1m, expected a whole decimal number"},
      {"collective broadcast --alpha 0x1", "--alpha is 0x1, expected a decimal number"},
      {"train --data sample --out x --deadline 0.0001", "--deadline is 0.0001, expected 0 or 0.001 to 1000000"},
      {"train --data sample --out x --dp 20000", "--dp 20000 times --tp 1 needs 20000 ranks, expected at most 1024"},
      {"bench step --hidden 65536 --heads 65536 --dp 65536 --tp 65536", "needs 4294967296 ranks, expected at most"},
  };
  for (const auto& [arguments, expected] : cases) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_THAT(outcome.err, StartsWith("adjoin: ")) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr(expected)) << arguments;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(Program, escapes_control_characters_in_what_it_says) {
  EXPECT_EQ(run("train --out x --data $'a\\x1b[2J\\x9b'").err, "adjoin: --data is not UTF-8\n");
  EXPECT_EQ(run("train --out x --data $'a\\x1b[2J\\xc2\\x9b'").err,
            "adjoin: --data a\\x1b[2J\\xc2\\x9b: no such file or folder\n");
}

TEST(Program, complains_once_in_an_mpi_job_and_names_a_rank_that_complains_alone) {
  EXPECT_EQ(run("train", {.environment = "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0"}).err,
            "adjoin: --data is needed\n");
  const Outcome second = run("train", {.environment = "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1"});
  EXPECT_EQ(second.code, 2);
  EXPECT_EQ(second.err, "adjoin: rank 1: --data is needed\n");  // nobody ended it while it waited for rank 0's word
}

TEST(Program, names_the_unknown_key_of_a_configuration_file) {
  const TemporaryFolder folder;
  put(folder / "run.toml", "data = \"sample\"\nlairs = 2\n");
  const Outcome outcome = run("train --config '" + (folder / "run.toml").string() + "'");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err,
              HasSubstr("run.toml:2: unknown key \"lairs\" (did you mean layers?); adjoin train --help lists"));
  const Outcome nested = run("doctor --config '" + (folder / "run.toml").string() + "'");
  EXPECT_THAT(nested.err, HasSubstr("run.toml:1: unknown key \"data\"; adjoin doctor --help lists"));
}

TEST(Program, tokenizes_a_line_into_a_line_of_ids) {
  const TemporaryFolder folder;
  put(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nfilm\ngood\n##s\n");
  put(folder / "texts", "Good films\n\nxyz film\n");
  const Outcome outcome =
      run("tokenize --vocab '" + (folder / "vocab.txt").string() + "'", {.input = (folder / "texts").string()});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out, "5 4 6\n\n1 4\n");  // places in the vocabulary, counted from 0; an unknown word is [UNK]
}

}  // namespace
}  // namespace adjoin::cli
