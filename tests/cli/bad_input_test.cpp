#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kReviews = "text,label\na good film,1\na bad film,0\nvery good,1\nvery bad,0\n";

class BadData : public testing::Test {
 protected:
  void refuses(const std::string& arguments, const std::string& expected, const Surroundings& where = {}) {
    expect_refused(run("train --preset tiny " + arguments + into(folder_ / "out"), where), expected, where.ranks > 0);
    EXPECT_FALSE(fs::exists(folder_ / "out")) << arguments;
  }
  std::string data() const { return "--data " + shell_quoted(folder_.path()); }
  TemporaryFolder folder_;
};

TEST_F(BadData, that_are_not_there_are_named) {
  refuses("--data /none/reviews", "/none/reviews: no such file or folder");
  refuses("--data /none/reviews --dp 2", "/none/reviews: no such file or folder", {.ranks = 2});
  refuses(data(), "no training samples; expected one of \"train.csv\"");
  put(folder_ / "train.csv", kReviews);
  refuses(data(), "no testing samples; expected one of \"test.csv\"");
}

TEST_F(BadData, are_refused_with_file_and_line) {
  const std::string header = "text,label\n";
  const std::pair<std::string, std::string> cases[] = {
      {"", "train.csv: the file is empty"},
      {header, "train.csv: no samples follow the header"},
      {"id,stars\n1,5\n", "train.csv:1: no column \"text\" or \"review\""},
      {"text,stars\ngood,5\n", "train.csv:1: no column \"label\""},
      {header + "good,1\n\"bad,0\nmore,1\n", "train.csv:3: a quote opens here and never closes"},
      {header + "good,1\n\"bad\" film,0\n", "train.csv:3: a quote opens here and closes before ' '"},
      {header + "good,1\nbad, \n", "train.csv:3: the label is empty"},
      {header + "good,1\nbad, but short,0\n", "train.csv:3: expected 2 fields"},
  };
  put(folder_ / "test.csv", kReviews);
  for (const auto& [contents, expected] : cases) {
    put(folder_ / "train.csv", contents);
    refuses(data(), expected);
  }
  put(folder_ / "train.csv", kReviews);
  put(folder_ / "test.csv", header + "good,1\nbad,0\nso so,maybe\n");
  refuses(data(), "test.csv:4: unknown label \"maybe\"; expected 0 or 1, neg or pos");
  put(folder_ / "test.csv", header + "good,1\n\"bad,0\n");
  refuses(data() + " --tp 2", "test.csv:3: a quote opens here and never closes", {.ranks = 2});
}

TEST(Requests, of_the_other_commands_are_checked) {
  expect_refused(run("--help", {.output = "/dev/full"}), "standard output: cannot be written");
  const TemporaryFolder folder;
  put(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n");
  expect_refused(run("tokenize --vocab " + shell_quoted(folder / "vocab.txt"), {.input = folder.path().string()}),
                 "standard input: cannot be read");
}

TEST_F(BadData, in_a_tree_that_are_no_files_are_named) {
  for (const char* part : {"train/pos", "train/neg", "test/pos", "test/neg"}) {
    fs::create_directories(folder_ / part);
    put(folder_ / part / "1.txt", "a film");
  }
  fs::create_directory(folder_ / "train/pos/2.txt");
  refuses(data(), "2.txt: expected a text file, this is not a file");
}

TEST_F(BadData, that_cannot_be_reached_are_named) {
  fs::create_symlink("loop", folder_ / "loop");
  const std::string loop = (folder_ / "loop").string();
  refuses("--data " + shell_quoted(loop), loop + ": Too many levels of symbolic links");
  refuses("--data sample --vocab " + shell_quoted(loop), loop + ": cannot open the vocabulary: Too many levels");
  expect_refused(run(kSmallRun + "--epochs 1" + into(loop)), loop + ": Too many levels of symbolic links");
}

TEST_F(BadData, include_a_vocabulary_without_the_special_tokens) {
  put(folder_ / "train.csv", kReviews);
  put(folder_ / "test.csv", kReviews);
  const std::pair<std::string, std::string> cases[] = {
      {"", "vocab.txt: the vocabulary is empty"},
      {"[PAD]\n[UNK]\n[CLS]\ngood\n", "lacks [SEP]"},
      {"good\nbad\n", "lacks [UNK], [CLS], [SEP], [PAD]"},
      {"[PAD]\n[UNK]\n[CLS]\n[SEP]\ngood\ngood\n", "line 6 repeats \"good\" of line 5"},
  };
  for (const auto& [contents, expected] : cases) {
    put(folder_ / "vocab.txt", contents);
    refuses(data() + " --vocab " + shell_quoted(folder_ / "vocab.txt"), expected);
  }
  refuses(data() + " --vocab /none/vocab.txt", "/none/vocab.txt: cannot open the vocabulary");
}

class BadLayout : public BadData {};

TEST_F(BadLayout, of_heads_is_refused) {
  refuses("--data sample --hidden 18", "--hidden 18 is not divisible by --heads 4");
  refuses("--data sample --tp 5", "--tp 5 is more than --heads 4");
}

TEST_F(BadLayout, is_refused_where_the_mpi_job_has_other_ranks) {
  refuses("--data sample --tp 3", "--dp 1 times --tp 3 needs 3 ranks, the MPI job has 2", {.ranks = 2});
  refuses("--data sample", "--dp 1 times --tp 1 needs 1 rank, the MPI job has 2", {.ranks = 2});
}

TEST_F(BadLayout, is_refused_where_the_backend_is_not_what_started_the_program) {
  refuses("--data sample --tp 2 --backend mpi", "--backend mpi: start the program with mpirun -n 2");
  refuses("--data sample --tp 2 --backend threads", "--backend threads: the program was started by mpirun",
          {.ranks = 2});
}

TEST(BadOutput, that_is_not_ours_is_left_alone) {
  const TemporaryFolder folder;
  put(folder / "notes.txt", "mine");
  const auto before = tree_of(folder.path());
  const std::string expected = "the folder exists, is not empty and was not made by adjoin";
  expect_refused(run(kSmallRun + "--epochs 1" + into(folder.path())), expected);
  expect_refused(run(kSmallRun + "--epochs 1 --dp 2" + into(folder.path()), {.ranks = 2}), expected,
                 /*under_mpirun=*/true);
  expect_refused(run(kSmallRun + "--epochs 1" + into(folder / "notes.txt")), "exists and is not a folder");
  expect_refused(run(kSmallRun + "--epochs 1" + into(folder / "notes.txt" / "below")), "notes.txt is not a folder");
  EXPECT_EQ(tree_of(folder.path()), before);
}

/// Trains where no file may grow beyond so many KiB, as on a disk that is full then.
Outcome run_on_full_disk(const std::string& arguments, int kib) {
  return run(arguments, {.limits = "ulimit -f " + std::to_string(kib) + ";"});
}

void expect_full_disk(const Outcome& outcome) {
  std::vector<std::string> lines = lines_of(outcome.err);
  for (const char* other : {"step ", "adjoin: warning: "})  // the progress, and that there is no flight record
    std::erase_if(lines, [&](const std::string& line) { return line.starts_with(other); });
  const Outcome rest{outcome.code, /*what it was about to do*/ "", lines.empty() ? "" : lines[0] + "\n"};
  EXPECT_EQ(lines.size(), 1u) << outcome.err;
  expect_refused(rest, "model.safetensors: cannot be written: File too large");
}

TEST(Divergence, ends_the_run_before_anything_of_it_is_saved) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run("train --data sample --preset tiny --samples 8 --batch 8 --epochs 20 --lr 1000 "
          "--weight-decay 1000 --lr-end 1 --warmup 0" +
          into(folder / "run"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("10 steps in a row were not finite; a lower --lr may help"));
  EXPECT_FALSE(fs::exists(folder / "run" / "model.safetensors"));
  EXPECT_FALSE(fs::exists(folder / "run" / "summary.json"));
}

TEST(OutOfMemory, is_told_in_one_line_with_what_was_asked_for_and_what_there_is) {
  // More than there are addresses, and than AddressSanitizer's allocator takes for meant.
  const Outcome outcome =
      run("bench step --preset tiny --vocabulary-size 131072 --hidden 16777216 --heads 1 --threads-per-rank 1",
          {.environment = "ASAN_OPTIONS=allocator_may_return_null=1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "");
  std::vector<std::string> lines = lines_of(outcome.err);
  std::erase_if(lines, [](const std::string& line) { return !line.starts_with("adjoin: "); });  // the sanitizer's
  ASSERT_EQ(lines.size(), 1u) << outcome.err;
  EXPECT_THAT(lines[0], testing::MatchesRegex("adjoin: rank 0: there is not enough memory for a tensor of 8192.0 GiB: "
                                              "this process may use [0-9.]+ GiB and uses [0-9.]+ [MG]iB"));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which need the address space for themselves
TEST(TooManyRanks, for_the_machine_are_told_before_anything_is_done) {
  const TemporaryFolder folder;
  expect_refused(run("bench step --preset tiny --dp 1000 --batch 1000", {.limits = "ulimit -v 6000000;"}),
                 "launch: expected to start 1000 threads, one for each rank, but this machine could start only ");
}
#endif

TEST(FullDisk, leaves_nothing_half_written) {
  const TemporaryFolder folder;
  for (const int kib : {8, 3}) {
    const fs::path out = folder / std::to_string(kib);
    expect_full_disk(run_on_full_disk(kSmallRun + "--epochs 1 --checkpoint-every 2" + into(out), kib));
    std::vector<std::string> names;
    for (const auto& [name, contents] : tree_of(out)) names.push_back(name);
    EXPECT_EQ(names, (std::vector<std::string>{".adjoin", "checkpoints", "metrics.jsonl", "run.json"}));
    for (const std::string& line : lines_of(contents_of(out / "metrics.jsonl")))
      EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  }
}

TEST(FullDisk, keeps_the_checkpoint_before_from_which_the_run_goes_on) {
  const TemporaryFolder folder;
  ASSERT_EQ(run(kSmallRun + "--epochs 1" + into(folder / "run")).code, 0);
  const auto checkpoint = tree_of(folder / "run" / "checkpoints");
  const std::string resume = "train --epochs 2 --resume " + shell_quoted(folder / "run");
  expect_full_disk(run_on_full_disk(resume, 8));
  EXPECT_EQ(tree_of(folder / "run" / "checkpoints"), checkpoint);
  const Outcome again = run(resume);
  EXPECT_EQ(again.code, 0) << again.err;
}

TEST(FullDisk, behind_standard_output_is_reported) {
  const TemporaryFolder folder;
  put(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nfilm\n");
  put(folder / "texts", "film\n");
  expect_refused(run("tokenize --vocab " + shell_quoted(folder / "vocab.txt"),
                     {.input = (folder / "texts").string(), .output = "/dev/full"}),
                 "standard output: cannot be written");
}

/// A trained model, and copies of it that are damaged.
class DamagedModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    sound_ = new TemporaryFolder;
    ASSERT_EQ(run(kSmallRun + "--epochs 1" + into(sound_->path())).code, 0);
  }
  static void TearDownTestSuite() { delete sound_; }

  using Damage = std::function<std::string(std::string)>;

  /// A copy whose file `name` is damaged.
  fs::path copy_with(const std::string& name, const Damage& damage) {
    const fs::path copy = folder_ / "model";
    fs::remove_all(copy);
    fs::copy(sound_->path(), copy, fs::copy_options::recursive);
    put(copy / name, damage(contents_of(copy / name)));
    return copy;
  }

  /// Of a state.json, without its checksums first.
  static Damage unsealed(const Damage& damage) {
    return [damage](const std::string& state) { return damage(without_checksums(state).dump(2)); };
  }
  static Damage replacing(const std::string& from, const std::string& to) {
    return [=](std::string text) {
      const size_t at = text.find(from);
      EXPECT_NE(at, text.npos) << from;
      return text.replace(at, from.size(), to);
    };
  }
  static std::string half(std::string text) { return text.substr(0, text.size() / 2); }
  static std::string without_end(std::string text) { return text.substr(0, text.size() - 1); }
  static std::string without_last_line(std::string text) {
    return text.substr(0, text.rfind('\n', text.size() - 2) + 1);
  }
  /// Its last tensor by name is the last in the file.
  static std::string with_infinity(std::string text) {
    return text.replace(text.size() - 4, 4, std::string("\0\0\x80\x7f", 4));
  }
  static std::string endless_header(std::string text) { return text.replace(0, 8, 8, '\x7f'); }

  static inline TemporaryFolder* sound_ = nullptr;
  TemporaryFolder folder_;
};

TEST_F(DamagedModel, is_refused_by_evaluate_and_predict) {
  const struct {
    std::string file;
    Damage damage;
    std::string expected;
  } cases[] = {
      {"model.safetensors", half, "model.safetensors: "},
      {"model.safetensors", without_end, "model.safetensors: "},
      {"model.safetensors", endless_header, "claims a header of 9187201950435737471 bytes"},
      {"model.safetensors", replacing("\"F32\"", "\"F64\""), "do not span the"},
      {"model.safetensors", replacing("[0,", "[1,"), "data_offsets"},
      {"model.safetensors", [](const std::string&) { return ""; }, "is too short for a safetensors file"},
      {"config.json", half, "config.json: this is not JSON"},
      {"config.json", [](const std::string&) { return "{}"; },
       "config.json: the configuration does not name its model"},
      {"config.json", replacing("\"hidden\": 16", "\"hidden\": \"many\""), "hidden has the wrong type"},
      {"config.json", replacing("\"hidden\": 16", "\"hidden\": 18"), "--hidden 18 is not divisible by --heads 4"},
      {"config.json", replacing("\"hidden\": 16", "\"hidden\": 20"), "but the model's has"},
      // 20 GB of embedding alone, had they been allocated before they are compared
      {"config.json", replacing("\"hidden\": 16", "\"hidden\": 16777216"), "but the model's has"},
      {"config.json", replacing("\"layers\": 1", "\"layers\": 2"), "there is no tensor"},
      {"model.safetensors", with_infinity, "model.safetensors: tensor 'positions.weight' is damaged"},
      {"config.json", replacing("\"final_norm\": true", "\"final_norm\": false"), "the model has no tensor"},
      {"config.json", replacing("\"layers\"", "\"lairs\""), "unknown key: lairs"},
      {"vocab.txt", replacing("[PAD]", "pad"), "lacks [PAD]"},
      {"vocab.txt", without_last_line, "but the model's has"},
  };
  for (const auto& [file, damage, expected] : cases) {
    const fs::path model = copy_with(file, damage);
    SCOPED_TRACE(file + " " + expected);
    expect_refused(run("predict fine --model " + shell_quoted(model)), expected);
    if (file == "model.safetensors")
      expect_refused(run("evaluate --data sample --samples 8 --model " + shell_quoted(model)), expected);
  }
}

TEST_F(DamagedModel, is_refused_once_under_mpirun) {
  const std::string evaluate = "evaluate --data sample --samples 8 --tp 2 --model ";
  expect_refused(run(evaluate + shell_quoted(copy_with("model.safetensors", half)), {.ranks = 2}),
                 "model.safetensors: ",
                 /*under_mpirun=*/true);
  expect_refused(run(evaluate + shell_quoted(copy_with("config.json", half)), {.ranks = 2}),
                 "config.json: this is not JSON",
                 /*under_mpirun=*/true);
}

TEST_F(DamagedModel, without_one_of_its_files_is_refused) {
  for (const std::string& file : std::vector<std::string>{"config.json", "vocab.txt", "model.safetensors"}) {
    const fs::path model = copy_with(file, [](const std::string& same) { return same; });
    fs::remove(model / file);
    if (file == "model.safetensors") fs::remove_all(model / "checkpoints");  // which else takes the model's place
    expect_refused(run("predict fine --model " + shell_quoted(model)), file);
  }
  expect_refused(run("predict fine --model /none/model"), "/none/model: there is no such folder");
}

TEST_F(DamagedModel, is_not_resumed_and_stays_as_it_is) {
  const struct {
    std::string file;
    Damage damage;
    std::string expected;
  } cases[] = {
      {"model.safetensors", half, "model.safetensors: "},
      {"optimizer.safetensors", half, "optimizer.safetensors: "},
      {"optimizer.safetensors", replacing("first.", "fisrt."),
       "optimizer.safetensors: is damaged: it has a checksum of 'fisrt."},
      {"state.json", [](const std::string&) { return ""; }, "state.json: is missing or empty"},
      {"state.json", half, "state.json: this is not the state of a training run"},
      {"state.json", unsealed(replacing("\"step\": ", "\"stop\": ")),
       "state.json: this is not the state of a training run"},
      {"state.json", unsealed(replacing("\"step\": ", "\"step\": -")),
       "state.json: its step, its epoch and its step of the epoch do not"},
      {"state.json", unsealed(replacing("\"epoch\": ", "\"epoch\": 1")),
       "state.json: its step, its epoch and its step of the epoch do not"},
      {"config.json", half, "config.json: this is not JSON"},
      {"config.json", replacing("\"hidden\": 16", "\"hidden\": 16777216"), "but the model's has"},
      {"vocab.txt", replacing("[PAD]", "pad"), "lacks [PAD]"},
  };
  for (const auto& [file, damage, expected] : cases) {
    const fs::path model = copy_with("checkpoints/step-6/" + file, damage);
    if (file == "config.json" || file == "vocab.txt")
      put(checkpoint_of(model) / "state.json", unsealed_state(checkpoint_of(model)).dump());
    const auto before = tree_of(model);
    SCOPED_TRACE(file + " " + expected);
    for (const std::string& out : {std::string(), into(folder_ / "new")}) {
      Outcome outcome = run("train --epochs 2 --resume " + shell_quoted(model) + out);
      outcome.out = "";  // what it was about to do
      expect_refused(outcome, expected);
    }
    EXPECT_EQ(tree_of(model), before);
    EXPECT_FALSE(fs::exists(folder_ / "new"));
  }
}

}  // namespace
}  // namespace adjoin::cli
