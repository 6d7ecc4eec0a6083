#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

/// Documents that a small model learns by heart.
std::string verses() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += i % 2 == 0 ? "The ship sails on.\n\n" : "A caf\u00e9 is open; it is late.\n\n";
  return text;
}

/// A decoder, trained for a moment on text in a file; made once.
class TrainedDecoder : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    put(*folder_ / "verses.txt", verses());
    outcome_ =
        new Outcome(run("train --model decoder --preset gpt-tiny --layers 1 --hidden 32 --sequence 48 --batch 8 "
                        "--epochs 80 --lr 0.01 --precision fp64 --vocab bytes --threads-per-rank 1 --tp 2 --data " +
                        shell_quoted(data()) + into(model())));
  }
  static void TearDownTestSuite() {
    delete outcome_;
    delete folder_;
  }
  static fs::path data() { return *folder_ / "verses.txt"; }
  static fs::path model() { return *folder_ / "run"; }
  static Outcome generate(const std::string& arguments, int ranks = 0) {
    return run("generate --model " + shell_quoted(model()) + " --threads-per-rank 1 " + arguments, {.ranks = ranks});
  }

  static inline TemporaryFolder* folder_ = nullptr;
  static inline Outcome* outcome_ = nullptr;
};

TEST_F(TrainedDecoder, comes_with_its_vocabulary_and_measures) {
  ASSERT_EQ(outcome_->code, 0) << outcome_->err;
  EXPECT_THAT(outcome_->out, HasSubstr("57 training and 3 test documents"));
  EXPECT_THAT(outcome_->out, HasSubstr("test bits per byte"));
  const json summary = json::parse(contents_of(model() / "summary.json"));
  EXPECT_NEAR(summary.at("test_perplexity").get<double>(), std::exp(summary.at("test_loss").get<double>()), 1e-9);
  EXPECT_LT(summary.at("test_bits_per_byte").get<double>(), 2);
  EXPECT_TRUE(fs::exists(model() / "vocab.model"));
  EXPECT_FALSE(fs::exists(model() / "vocab.txt"));
}

TEST_F(TrainedDecoder, writes_the_same_text_on_in_every_layout) {
  const Outcome likeliest = generate("--tokens 30 'The '");
  ASSERT_EQ(likeliest.code, 0) << likeliest.err;
  EXPECT_EQ(likeliest.out, "The ship sails on.\n");
  EXPECT_EQ(generate("--tokens 30 --temperature 0 'The '").out, likeliest.out);
  const TemporaryFolder folder;
  put(folder / "prompt", "The \n");
  EXPECT_EQ(run("generate --tokens 30 --model " + shell_quoted(model()), {.input = (folder / "prompt").string()}).out,
            likeliest.out);
  EXPECT_EQ(generate("--tokens 30 'A c'").out, "A caf\u00e9 is open; it is late.\n");
  const std::string drawn = "--tokens 40 --temperature 4 --top-k 20 --top-p 0.95 --seed 5 'A'";
  const Outcome one = generate(drawn);
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(generate(drawn + " --tp 3").out, one.out);
  EXPECT_EQ(generate(drawn + " --tp 2", 2).out, one.out);
  EXPECT_NE(generate("--tokens 40 --temperature 4 --top-k 20 --top-p 0.95 --seed 6 'A'").out, one.out);
}

TEST_F(TrainedDecoder, writes_several_texts_on_over_the_stages_of_a_pipeline) {
  const Outcome one = generate("--tokens 30 'The ' 'A c'");
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out, "The ship sails on.\n\nA caf\u00e9 is open; it is late.\n");
  EXPECT_EQ(generate("--pp 3 --tp 2 --tokens 30 'The ' 'A c'").out, one.out);
  EXPECT_EQ(generate("--pp 2 --tokens 30 'The '").out, "The ship sails on.\n");
  EXPECT_EQ(generate("--pp 2 --tokens 30 'The '", 2).out, "The ship sails on.\n");
  const TemporaryFolder folder;
  put(folder / "prompts", "The \nA c\n");
  const Outcome objects = run("generate --json --pp 2 --tokens 30 --model " + shell_quoted(model()),
                              {.input = (folder / "prompts").string()});
  const auto lines = lines_of(objects.out);
  ASSERT_EQ(lines.size(), 2u) << objects.err;
  EXPECT_EQ(lines[0], R"({"prompt":"The ","text":"ship sails on.","tokens":14})");
  EXPECT_EQ(json::parse(lines[1]).at("text"), "af\u00e9 is open; it is late.");
  EXPECT_THAT(generate("--pp 4 'A'").err, HasSubstr("--pp 4 makes 4 stages, but the model has only 3 segments"));
}

TEST_F(TrainedDecoder, writes_to_a_file_what_it_was_given_and_wrote_to_the_byte) {
  const std::string tabs = "a\tb \\t\x1b[1m \xc2\x85\xff";
  const TemporaryFolder folder;
  put(folder / "prompt", tabs + "\n");
  const Surroundings from_file{.input = (folder / "prompt").string()};
  const std::string generate = "generate --tokens 1 --model " + shell_quoted(model());
  EXPECT_THAT(run_well(generate, from_file).out, ::testing::StartsWith(tabs));
  const std::string object = run_well(generate + " --json", from_file).out;
  EXPECT_EQ(json::parse(object).at("prompt"), "a\tb \\t\x1b[1m \xc2\x85\ufffd");
  EXPECT_THAT(object, HasSubstr(R"("a\tb \\t\u001b[1m \u0085)"));  // safe on a terminal
  put(folder / "prompts", tabs + "\nA\n");
  const std::string both = run_well(generate, {.input = (folder / "prompts").string()}).out;
  EXPECT_THAT(both, ::testing::StartsWith(tabs));
}

TEST_F(TrainedDecoder, takes_a_prompt_of_several_lines) {
  const TemporaryFolder folder;
  put(folder / "prompt", "The ship sails on.\r\n\n\tThe ");
  const Surroundings from_file{.input = (folder / "prompt").string()};
  const std::string generate = "generate --tokens 1 --json --model " + shell_quoted(model());
  EXPECT_EQ(json::parse(run_well(generate + " --whole", from_file).out).at("prompt"), contents_of(folder / "prompt"));
  EXPECT_EQ(json::parse(run_well(generate + " $'two\\nlines'").out).at("prompt"), "two\nlines");
  const Outcome both = run(generate + " --whole A", from_file);
  EXPECT_EQ(both.code, 2);
  EXPECT_EQ(both.err, "adjoin: --whole makes one prompt of standard input: give no others\n");
  EXPECT_EQ(run(generate + " --whole").err, "adjoin: the prompt is empty\n");
}

/// The last line comes only when there is an answer.
TEST_F(TrainedDecoder, answers_the_lines_of_standard_input_as_they_come) {
  const TemporaryFolder folder;
  const std::string out = shell_quoted(folder / "answers"), has_answer = "[ -s " + out + " ]";
  const std::string input = R"({ printf 'The \nA c\n'; for i in $(seq 1200); do )" + has_answer +
                            " && break; sleep 0.05; done; " + has_answer + R"( && printf 'The \n'; })";
  const std::string command = "touch " + out + "; " + input + " | " + shell_quoted(ADJOIN_PROGRAM) +
                              " generate --tokens 1 --json --threads-per-rank 1 --tp 2 --model " +
                              shell_quoted(model()) + " > " + out;
  EXPECT_EQ(std::system(command.c_str()), 0);
  const std::vector<std::string> answers = lines_of(contents_of(folder / "answers"));
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(json::parse(answers[2]).at("prompt"), "The ");
}

TEST_F(TrainedDecoder, says_that_it_reads_a_long_text_in_pieces) {
  const std::string text(100, 'a'), predict = "predict --model " + shell_quoted(model());
  EXPECT_EQ(run(predict + " ab " + text).err,
            "adjoin: warning: text 2 has 100 tokens, which the model reads in pieces of 48 that do not see each "
            "other\n");
  EXPECT_EQ(json::parse(run_well(predict + " --json " + text).out).at("tokens_at_once"), 48);
}

TEST_F(TrainedDecoder, is_evaluated_on_what_training_held_out_or_on_all_of_another_file) {
  const auto evaluated = [&](const std::string& arguments) {
    return printed_json("evaluate --model " + shell_quoted(model()) + arguments);
  };
  const json summary = json::parse(contents_of(model() / "summary.json")), own = evaluated("");
  EXPECT_NEAR(own.at("loss").get<double>(), summary.at("test_loss").get<double>(), 1e-9);
  EXPECT_EQ(own.at("texts"), "the last 20th of the documents in " + data().string() + ", which training held out");
  put(*folder_ / "copy.txt", verses());
  const json copy = evaluated(" --data " + shell_quoted(*folder_ / "copy.txt"));
  EXPECT_EQ(copy.at("texts"),
            "the last 20th of the documents in " + (*folder_ / "copy.txt").string() + ", which training held out");
  EXPECT_EQ(copy.at("loss"), own.at("loss"));
  put(*folder_ / "more.txt", verses() + "The end.\n");
  const json more = evaluated(" --data " + shell_quoted(*folder_ / "more.txt"));
  EXPECT_EQ(more.at("texts"), "all texts in " + (*folder_ / "more.txt").string());
  EXPECT_GT(more.at("samples"), own.at("samples"));
  const Outcome warned = run("evaluate --json --model " + shell_quoted(model()) + " --test " + shell_quoted(data()));
  EXPECT_THAT(warned.err, HasSubstr("verses.txt: the model was trained on texts of it"));
  EXPECT_GT(json::parse(warned.out).at("samples"), own.at("samples"));
}

TEST_F(TrainedDecoder, answers_the_texts_before_one_that_it_refuses) {
  const TemporaryFolder folder;
  std::string texts;
  for (int i = 0; i < 70; ++i) texts += "The ship sails on.\r\n";
  put(folder / "texts", texts + "\nThe end.\n");
  const Outcome outcome = run("predict --model " + shell_quoted(model()), {.input = (folder / "texts").string()});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(lines_of(outcome.out).size(), 70u);
  EXPECT_EQ(outcome.err, "adjoin: text 71: the text is empty\n");
  EXPECT_EQ(run("predict --model " + shell_quoted(model()) + " T").err,
            "adjoin: text 1: the text is a single token; expected at least 2, because each is scored after those "
            "before it\n");
}

TEST_F(TrainedDecoder, is_evaluated_and_judges_texts) {
  const Outcome evaluated = run("evaluate --json --model " + shell_quoted(model()) + " --data " + shell_quoted(data()));
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  const json summary = json::parse(contents_of(model() / "summary.json")), found = json::parse(evaluated.out);
  EXPECT_NEAR(found.at("loss").get<double>(), summary.at("test_loss").get<double>(), 1e-9);
  EXPECT_NEAR(found.at("bits_per_byte").get<double>(), summary.at("test_bits_per_byte").get<double>(), 1e-9);
  const Outcome predicted =
      run("predict --json --model " + shell_quoted(model()) + " 'The ship sails on.' 'xylophone zzz qqq'");
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  const auto lines = lines_of(predicted.out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_LT(json::parse(lines[0]).at("bits_per_byte"), json::parse(lines[1]).at("bits_per_byte"));
  const auto on_more = lines_of(
      run("predict --json --dp 2 --tp 2 --model " + shell_quoted(model()) + " 'The ship sails on.' 'xylophone zzz qqq'")
          .out);
  ASSERT_EQ(on_more.size(), 2u);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_NEAR(json::parse(on_more[i]).at("bits_per_byte").get<double>(),
                json::parse(lines[i]).at("bits_per_byte").get<double>(), 1e-5);
}

TEST_F(TrainedDecoder, refuses_wrong_requests_in_one_line) {
  const auto refusal = [&](const std::string& arguments) {
    const Outcome outcome = generate(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
    return outcome.err;
  };
  EXPECT_THAT(refusal("''"), HasSubstr("the prompt is empty"));
  EXPECT_THAT(refusal(""), HasSubstr("prompt"));
  EXPECT_THAT(refusal("--top-k 0 a"), HasSubstr("top-k"));
  EXPECT_THAT(refusal("--top-p 0 a"), HasSubstr("top-p"));
  EXPECT_THAT(refusal("--temperature -1 a"), HasSubstr("temperature"));
  EXPECT_THAT(refusal("--temperature 0 --top-k 0 a"), HasSubstr("top-k"));
  EXPECT_THAT(refusal("--tokens 48 a"), HasSubstr("context is 48"));
  EXPECT_THAT(refusal("'" + std::string(48, 'a') + "'"), HasSubstr("the prompt has 48 tokens"));
  EXPECT_THAT(refusal("a '" + std::string(48, 'a') + "'"), HasSubstr("prompt 2 has 48 tokens"));
  EXPECT_THAT(refusal("--tokens 0 a"), HasSubstr("--tokens is 0"));
  EXPECT_THAT(refusal("--tp 5 a"), HasSubstr("--tp 5 is more than"));
}

TEST_F(TrainedDecoder, refuses_wrong_data_with_nothing_written) {
  const auto refusal = [&](const std::string& text, const std::string& arguments = "") {
    put(*folder_ / "text.txt", text);
    const Outcome outcome = run("train --model decoder --vocab bytes --data " + shell_quoted(*folder_ / "text.txt") +
                                " " + arguments + into(*folder_ / "none"));
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
    EXPECT_FALSE(fs::exists(*folder_ / "none"));
    return outcome.err;
  };
  EXPECT_THAT(refusal(""), HasSubstr("text.txt"));
  EXPECT_THAT(refusal("\n\n\n"), HasSubstr("text.txt"));
  EXPECT_THAT(refusal("short\n\nvery\n\n"), HasSubstr("text.txt: has 6 tokens"));
  EXPECT_THAT(refusal(verses(), "--positions none"), HasSubstr("--positions none is for a classifier"));
  EXPECT_THAT(refusal(verses(), "--positions rotary --hidden 20 --heads 4"), HasSubstr("pairs of features"));
  EXPECT_THAT(refusal(verses(), "--label-column a"), HasSubstr("--label-column is for a classifier"));
  EXPECT_THAT(refusal(verses(), "--heads 4 --key-heads 3"), HasSubstr("not divisible by --key-heads 3"));
}

TEST_F(TrainedDecoder, keeps_bytes_that_are_no_utf8) {
  put(*folder_ / "bytes.txt", verses() + "\xff\xfe are bytes\n\n" + verses());
  const Outcome outcome =
      run("train --model decoder --preset gpt-tiny --layers 1 --hidden 16 --epochs 1 --vocab bytes --data " +
          shell_quoted(*folder_ / "bytes.txt") + into(*folder_ / "bytes"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("UTF-8")));
}

}  // namespace
}  // namespace adjoin::cli
