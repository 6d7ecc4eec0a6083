#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "adjoin/models/model.hpp"
#include "adjoin/models/text_classifier.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/transformer_options.hpp"
#include "paths.hpp"
#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

json json_of(const fs::path& path) {
  return json::parse(contents_of(path));
}

/// A model that was trained with two tensor-parallel ranks.
class TrainedModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    ASSERT_EQ(run(kSmallRun + "--epochs 1 --eval-every 2 --tp 2" + into(model())).code, 0);
  }
  static void TearDownTestSuite() { delete folder_; }

  static fs::path model() { return *folder_ / "model"; }
  static std::string of_model() { return " --model " + shell_quoted(model()) + " "; }

  static inline TemporaryFolder* folder_ = nullptr;
};

TEST_F(TrainedModel, evaluates_to_the_summarys_loss_in_every_layout) {
  const json summary = json_of(model() / "summary.json");
  const struct {
    std::string arguments;
    int ranks;
  } layouts[] = {{"", 0},       {"--dp 2", 0}, {"--tp 2", 0}, {"--tp 3 --batch 7", 0},
                 {"--dp 2", 2}, {"--dp 0", 2}, {"--tp 2", 2}};
  for (const auto& [arguments, ranks] : layouts) {
    SCOPED_TRACE(arguments + (ranks > 0 ? " under mpirun" : ""));
    const Outcome outcome =
        run("evaluate --json --data sample --samples 48 " + arguments + of_model(), {.ranks = ranks});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    ASSERT_EQ(lines_of(outcome.out).size(), 1u) << outcome.out;
    const json result = json::parse(outcome.out);
    EXPECT_EQ(keys_of(result), (std::set<std::string>{"samples", "loss", "accuracy", "seconds", "texts", "classes",
                                                      "f1", "macro_f1", "confusion"}));
    EXPECT_EQ(result.at("texts"), "the test texts in sample");
    EXPECT_EQ(result.at("samples"), 48);
    EXPECT_NEAR(result.at("loss").get<double>(), summary.at("test_loss").get<double>(), 1e-6);
    EXPECT_EQ(result.at("accuracy"), summary.at("test_accuracy"));
  }
}

TEST_F(TrainedModel, predicts_a_line_a_text) {
  const Outcome outcome = run("predict 'A wonderful film.' 'Dull and far too long.' '?'" + of_model());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const std::vector<std::string> lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 3u);
  for (const std::string& line : lines)
    EXPECT_THAT(line, MatchesRegex("(positive|negative)\t(0\\.[5-9][0-9][0-9][0-9]|1\\.0000)"));

  put(*folder_ / "texts", "A wonderful film.\nDull and far too long.\n?\n");
  const Surroundings from_file{.input = (*folder_ / "texts").string()};
  EXPECT_EQ(run("predict" + of_model(), from_file).out, outcome.out);
  EXPECT_EQ(run("predict --dp 2 --tp 2" + of_model(), from_file).out, outcome.out);
  Surroundings under_mpirun = from_file;
  under_mpirun.ranks = 2;
  EXPECT_EQ(run("predict" + of_model(), under_mpirun).out, outcome.out);  // --dp is the job's ranks
}

TEST_F(TrainedModel, refuses_an_empty_text_as_a_decoder_does) {
  for (const std::string text : {"''", "' '"}) {
    const Outcome outcome = run("predict good " + text + " bad" + of_model());
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.err, "adjoin: text 2: the text is empty\n");
    EXPECT_EQ(lines_of(outcome.out).size(), 1u);
  }
}

TEST_F(TrainedModel, takes_for_a_text_whatever_is_no_option) {
  const std::string texts =
      "doctor '[a, b]' '-bad film' $'two\\nlines' '\"quoted\"' -x train -- --json --model '--help me'";
  const Outcome outcome = run("predict" + of_model() + texts);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(lines_of(outcome.out).size(), 10u) << outcome.out;
  for (const std::string& line : lines_of(outcome.out)) EXPECT_THAT(line, MatchesRegex("(positive|negative)\t.*"));
}

TEST_F(TrainedModel, predicts_as_json) {
  const Outcome outcome = run("predict --json good 'very bad'" + of_model());
  ASSERT_EQ(lines_of(outcome.out).size(), 2u) << outcome.err;
  for (const std::string& line : lines_of(outcome.out)) {
    const json prediction = json::parse(line);
    EXPECT_EQ(keys_of(prediction), (std::set<std::string>{"label", "probability"}));
    EXPECT_THAT(prediction.at("label"), testing::AnyOf("positive", "negative"));
    EXPECT_GE(prediction.at("probability"), 0.5);
  }
  const json all = json::parse(run("predict --all --json good" + of_model()).out);
  const double negative = all.at("probabilities").at("negative"), positive = all.at("probabilities").at("positive");
  EXPECT_NEAR(negative + positive, 1, 1e-12);
  EXPECT_EQ(all.at("probability"), std::max(negative, positive));
  EXPECT_THAT(run("predict --all good" + of_model()).out,
              MatchesRegex("(positive|negative)\t(0.[5-9]|1.)[0-9]+\t(positive|negative)\t0.[0-4][0-9]+\n"));
}

TEST_F(TrainedModel, answers_a_text_while_the_next_has_yet_to_come) {
  const fs::path input = *folder_ / "fifo", output = *folder_ / "answers";
  ASSERT_EQ(::mkfifo(input.c_str(), 0600), 0);
  const int writer = ::open(input.c_str(), O_RDWR | O_CLOEXEC);  // which does not wait for the reader
  Running program("predict" + of_model(), {.input = input.string(), .output = output.string()});
  for (size_t texts = 1; texts <= 3; ++texts) {
    ASSERT_EQ(::write(writer, "good film\n", 10), 10);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while ((!fs::exists(output) || lines_of(contents_of(output)).size() < texts) &&
           std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_EQ(lines_of(contents_of(output)).size(), texts);
  }
  ::close(writer);
  EXPECT_EQ(program.wait().code, 0);
}

TEST_F(TrainedModel, is_read_by_pythons_safetensors_with_global_shapes) {
  const fs::path script = *folder_ / "shapes.py", printed = *folder_ / "shapes.json";
  put(script,
      "import json, sys\n"
      "from safetensors import safe_open\n"
      "with safe_open(sys.argv[1], framework='numpy') as file:\n"
      "    print(json.dumps({name: list(file.get_tensor(name).shape) for name in file.keys()}))\n");
  const std::string command = "'" ADJOIN_PYTHON "' " + shell_quoted(script) + " " +
                              shell_quoted(model() / "model.safetensors") + " > " + shell_quoted(printed);
  ASSERT_EQ(std::system(command.c_str()), 0);

  const auto configuration =
      train::configuration_from_json(nlohmann::ordered_json::parse(contents_of(model() / "config.json")));
  EXPECT_EQ(configuration.tp, 2);
  const auto words = static_cast<int64_t>(lines_of(contents_of(model() / "vocab.txt")).size());
  const models::Model whole(models::text_classifier(train::transformer_options(configuration, words),
                                                    train::classifier_options(configuration, /*classes=*/2)),
                            Grid(Communicator(), {{"tp", 1}}));
  json expected;
  for (const nn::Parameter& parameter : nn::parameters_of(*whole))
    expected[parameter.name] = parameter.tensor.sizes().vec();
  EXPECT_EQ(json_of(printed), expected);
}

TEST_F(TrainedModel, comes_with_a_summary_and_metrics_of_the_documented_keys) {
  const json summary = json_of(model() / "summary.json");
  EXPECT_EQ(keys_of(summary),
            (std::set<std::string>{"adjoin", "libtorch", "host", "machine", "date", "config", "layout", "ranks",
                                   "train_loss", "test_loss", "test_accuracy", "test_classes", "test_confusion",
                                   "test_f1", "test_macro_f1", "train_seconds", "skipped_steps"}));
  EXPECT_EQ(summary.at("layout").at("tp"), 2);
  ASSERT_EQ(summary.at("ranks").size(), 2u);
  for (int rank = 0; rank < 2; ++rank) {
    const json& held = summary.at("ranks")[static_cast<size_t>(rank)];
    EXPECT_EQ(keys_of(held),
              (std::set<std::string>{"rank", "stages", "parameters", "peak_memory_bytes", "computing_seconds",
                                     "waiting_seconds", "communicating_seconds", "data_seconds", "hidden_seconds"}));
    EXPECT_EQ(held.at("rank"), rank);
    EXPECT_GT(held.at("peak_memory_bytes"), 4 * held.at("parameters").get<int64_t>());  // of float32
  }

  std::vector<std::string> kinds;
  for (const std::string& line : lines_of(contents_of(model() / "metrics.jsonl"))) {
    const json object = json::parse(line);
    kinds.push_back(object.at("kind"));
    EXPECT_EQ(keys_of(object),
              kinds.back() == "step"
                  ? (std::set<std::string>{"kind", "step", "epoch", "loss", "accuracy", "learning_rate",
                                           "gradient_norm", "tokens_per_second", "step_seconds", "waiting_seconds",
                                           "communicating_seconds", "slowest_rank", "flops_per_second", "skipped"})
                  : (std::set<std::string>{"kind", "step", "loss", "accuracy"}));
  }
  const std::string s = "step", e = "evaluation";
  EXPECT_EQ(kinds, (std::vector<std::string>{s, s, e, s, s, e, s, s, e}));  // 48 samples in batches of 8
}

TEST_F(TrainedModel, says_in_its_summary_what_it_takes_each_class_for) {
  const json summary = json_of(model() / "summary.json"), found = printed_json("evaluate" + of_model());
  for (const char* key : {"classes", "f1", "macro_f1", "confusion"})
    EXPECT_EQ(found.at(key), summary.at(std::string("test_") + key)) << key;
  EXPECT_NEAR(found.at("macro_f1").get<double>(),
              (found.at("f1")[0].get<double>() + found.at("f1")[1].get<double>()) / 2, 1e-12);
}

TEST_F(TrainedModel, says_where_it_cuts_a_text) {
  const std::string long_text = [] {
    std::string words;
    for (int i = 0; i < 31; ++i) words += "? ";
    return words;
  }();
  const Outcome lines = run("predict '? ?' '" + long_text + "'" + of_model());
  EXPECT_EQ(lines_of(lines.out).size(), 2u);
  EXPECT_EQ(lines.err, "adjoin: warning: text 2 has 31 tokens, of which the model reads the first 30\n");
  const auto objects = lines_of(run_well("predict --json '? ?' '" + long_text + "'" + of_model()).out);
  ASSERT_EQ(objects.size(), 2u);
  EXPECT_EQ(keys_of(json::parse(objects[0])), (std::set<std::string>{"label", "probability"}));
  EXPECT_EQ(json::parse(objects[1]).at("tokens"), 31);
  EXPECT_EQ(json::parse(objects[1]).at("tokens_at_once"), 30);
}

TEST(InvalidUtf8, in_reviews_gives_one_warning) {
  const TemporaryFolder folder;
  put(folder / "train.csv", "text,label\na good\xff film,1\na bad film,0\n");
  put(folder / "test.csv", "text,label\nvery\xc3 good,1\nvery bad\xfe,0\n");
  const Outcome trained =
      run("train --data " + shell_quoted(folder.path()) + kSmallModel + "--epochs 1 --dp 2" + into(folder / "out"),
          {.ranks = 2});
  ASSERT_EQ(trained.code, 0) << trained.err;
  std::vector<std::string> warnings = lines_of(trained.err);
  std::erase_if(warnings, [](const std::string& line) { return line.find("adjoin: ") == line.npos; });
  EXPECT_EQ(warnings, (std::vector<std::string>{"adjoin: warning: " + folder.path().string() +
                                                ": 3 bytes were not UTF-8 and were dropped"}));
  const Outcome evaluated =
      run("evaluate --data " + shell_quoted(folder / "test.csv") + " --model " + shell_quoted(folder / "out"));
  EXPECT_EQ(evaluated.code, 0);
  EXPECT_EQ(evaluated.err,
            "adjoin: warning: " + (folder / "test.csv").string() + ": 2 bytes were not UTF-8 and were dropped\n");
  EXPECT_EQ(run("predict 'not \xff UTF-8' --model " + shell_quoted(folder / "out")).code, 0);
}

TEST(Training, says_first_what_it_is_about_to_do_and_then_each_evaluation) {
  const TemporaryFolder folder;
  const Outcome outcome = run(kSmallRun + "--epochs 2 --eval-every 5 --tp 2" + into(folder / "run"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<std::string> lines = lines_of(outcome.out);
  const auto pieces = lines_of(contents_of(folder / "run" / "vocab.txt")).size();
  // 16 features: a word's, 12 * 16^2 of the block with its 4 * 16 of norms, 16^2 + 2 * 16 of the classifier, 32 positions'
  // and 2 * 16 of the last norm.
  const auto parameters = 16 * pieces + 12 * 256 + 4 * 16 + 256 + 32 + 32 * 16 + 32;
  ASSERT_GE(lines.size(), 8u);
  EXPECT_EQ(lines[0], "48 training and 48 test texts from sample");
  EXPECT_EQ(lines[1], "vocabulary of " + std::to_string(pieces) + " pieces, learned from the training texts");
  EXPECT_EQ(lines[2], "model of " + grouped(static_cast<int64_t>(parameters)) +
                          " parameters: 1 block of 16 features and 4 heads");
  EXPECT_EQ(lines[3], "12 steps: 2 epochs in batches of 8");
  EXPECT_EQ(lines[4], "2 ranks: dp 1, tp 2, threads");
  EXPECT_EQ(lines[5], "writes to " + (folder / "run").string());
  EXPECT_THAT(lines[6], MatchesRegex("step 5  test loss [0-9.]+  accuracy [0-9.]+ %"));
  EXPECT_THAT(lines[7], MatchesRegex("step 10  test loss [0-9.]+  accuracy [0-9.]+ %"));
  const json summary = json_of(folder / "run" / "summary.json");
  EXPECT_EQ(
      summary.at("ranks")[0].at("parameters").get<size_t>() + summary.at("ranks")[1].at("parameters").get<size_t>(),
      parameters + 4 * 16 + 32);  // the norms, which both ranks hold
}

TEST(OneClass, in_the_training_reviews_gives_one_warning) {
  const TemporaryFolder folder;
  put(folder / "train.csv", "text,label\na good film,1\na very good film,1\n");
  put(folder / "test.csv", "text,label\nvery good,1\nvery bad,0\n");
  const auto warning_of = [&](const std::string& data) {
    const Outcome trained = run("train --data " + data + kSmallModel + "--epochs 1" + into(folder / "out"));
    EXPECT_EQ(trained.code, 0) << trained.err;
    std::vector<std::string> warnings = lines_of(trained.err);
    std::erase_if(warnings, [](const std::string& line) { return !line.starts_with("adjoin: "); });
    fs::remove_all(folder / "out");
    return warnings;
  };
  EXPECT_EQ(warning_of(shell_quoted(folder.path())),
            (std::vector<std::string>{"adjoin: warning: " + folder.path().string() +
                                      ": all training texts are positive, so there is nothing to tell apart"}));
  EXPECT_EQ(warning_of("sample --samples 8"), (std::vector<std::string>{}));
}

TEST(Mpi, trains_to_the_losses_of_threads) {
  const TemporaryFolder folder;
  const std::string train = kSmallRun + "--precision fp64 --epochs 2 --tp 2";
  const Outcome threads = run(train + into(folder / "threads")), mpi = run(train + into(folder / "mpi"), {.ranks = 2});
  ASSERT_EQ(threads.code, 0) << threads.err;
  ASSERT_EQ(mpi.code, 0) << mpi.err;
  const auto a = lines_of(contents_of(folder / "threads" / "metrics.jsonl")),
             b = lines_of(contents_of(folder / "mpi" / "metrics.jsonl"));
  ASSERT_EQ(a.size(), 13u);  // 12 steps and the evaluation
  ASSERT_EQ(b.size(), a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const double expected = json::parse(a[i]).at("loss"), loss = json::parse(b[i]).at("loss");
    EXPECT_LE(std::abs(loss - expected), 1e-9 * expected) << "line " << i + 1;
  }
  const json ranks_of_threads = json_of(folder / "threads" / "summary.json").at("ranks"),
             ranks_of_mpi = json_of(folder / "mpi" / "summary.json").at("ranks");
  ASSERT_EQ(ranks_of_mpi.size(), 2u);
  for (size_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(ranks_of_mpi[rank].at("parameters"), ranks_of_threads[rank].at("parameters"));
  EXPECT_EQ(mpi.out.find("test accuracy"), mpi.out.rfind("test accuracy"));  // the table, once
  EXPECT_THAT(mpi.out, HasSubstr("test accuracy"));
}

}  // namespace
}  // namespace adjoin::cli
