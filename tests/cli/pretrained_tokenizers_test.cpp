#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/cli/program.hpp"
#include "tests/data/tokenizer/small_tokenizers.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using ::testing::HasSubstr;

class RunWithTokenizer : public testing::Test {
 protected:
  fs::path out() const { return folder_ / "run"; }
  fs::path tokenizer() const { return folder_ / "tokenizer"; }
  void put_tokenizer(const nlohmann::json& json) const {
    fs::create_directories(tokenizer());
    put(tokenizer() / "tokenizer.json", json.dump());
  }
  Outcome train(const std::string& arguments) const {
    return run(arguments + " --epochs 1 --vocab " + shell_quoted(tokenizer()) + into(out()));
  }
  TemporaryFolder folder_;
};

TEST_F(RunWithTokenizer, keeps_a_classifier_s_that_is_not_the_plain_one) {
  put_tokenizer(data::small_classifier());
  const Outcome outcome = train(kSmallRun);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(contents_of(out() / "tokenizer.json"), data::small_classifier().dump());
  EXPECT_FALSE(fs::exists(out() / "vocab.txt"));
  fs::remove_all(tokenizer());
  const Outcome evaluated =
      run("evaluate --data sample --samples 20 --threads-per-rank 1 --model " + shell_quoted(out()));
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  const Outcome resumed = run(kSmallRun + " --epochs 2 --resume auto" + into(out()));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(contents_of(out() / "tokenizer.json"), data::small_classifier().dump());

  ASSERT_EQ(run(kSmallRun + " --epochs 1 --overwrite" + into(out())).code, 0);
  EXPECT_FALSE(fs::exists(out() / "tokenizer.json"));
  EXPECT_TRUE(fs::exists(out() / "vocab.txt"));
}

TEST_F(RunWithTokenizer, keeps_a_decoder_s) {
  put_tokenizer(data::small_decoder());
  put(tokenizer() / "generation_config.json", R"({"eos_token_id": [20, 0]})");
  put(tokenizer() / "tokenizer_config.json", R"({"split_special_tokens": true})");
  const std::string decoder =
      "train --model decoder --data sample --samples 20 --preset gpt-tiny --layers 1 --hidden 32 --sequence 32 "
      "--positions rotary --norm rms --activation swiglu --threads-per-rank 1";
  const Outcome outcome = train(decoder);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto kept = nlohmann::json::parse(contents_of(out() / "vocab.model"));
  EXPECT_EQ(kept["model"]["vocab"], data::small_decoder()["model"]["vocab"]);
  EXPECT_EQ(kept["model"]["adjoin_ends"], nlohmann::json({20, 0}));
  fs::remove_all(tokenizer());
  put(folder_ / "prompts", "ab ab<|endoftext|>\n");
  const Outcome written = run("generate --tokens 4 --threads-per-rank 1 --model " + shell_quoted(out()),
                              {.input = (folder_ / "prompts").string()});
  EXPECT_EQ(written.code, 0) << written.err;

  const fs::path exported = folder_ / "exported";
  const Outcome outcome_of_export = run("export --model " + shell_quoted(out()) + " --out " + shell_quoted(exported));
  ASSERT_EQ(outcome_of_export.code, 0) << outcome_of_export.err;
  EXPECT_THAT(contents_of(exported / "tokenizer.json"), ::testing::Not(HasSubstr("adjoin")));
  EXPECT_EQ(nlohmann::json::parse(contents_of(exported / "tokenizer_config.json"))["split_special_tokens"], true);
}

TEST_F(RunWithTokenizer, refuses_the_other_kind_in_one_line) {
  put_tokenizer(data::small_decoder());
  const Outcome outcome = train(kSmallRun);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("model \"BPE\" is not supported in a classifier"));
  EXPECT_EQ(lines_of(outcome.err).size(), 1u);
}

}  // namespace
}  // namespace adjoin::cli
