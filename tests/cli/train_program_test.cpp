// Training of programs from the command line.

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "adjoin/store/npy.hpp"
#include "adjoin/store/safetensors.hpp"
#include "tests/cli/program.hpp"
#include "tests/support/small_program.hpp"

namespace adjoin::cli {
namespace {

using namespace test;
using ::testing::HasSubstr;

/// A small program, x and y beside it, and a run.
struct SmallProgramRun {
  SmallProgramRun() {
    write_small_program(folder / "net.pt2");
    std::filesystem::create_directories(folder / "data");
    const at::Tensor x = at::sin(at::arange(80)).view({40, 2});
    train::write_npy(folder / "data/x.npy", x);
    train::write_npy(folder / "data/y.npy", at::relu(x * 3));
  }
  std::string train(const std::string& options) const {
    return "train --program " + shell_quoted(folder / "net.pt2") + " --data " + shell_quoted(folder / "data") + " " +
           options;
  }
  std::string out() const { return shell_quoted(folder / "run"); }

  const TemporaryFolder folder;
};

TEST(TrainProgram, trains_evaluates_predicts_and_gives_the_weights_back) {
  const SmallProgramRun run_of;
  const std::string options = "--loss mse --batch 6 --lr 0.05 --shuffle off --out " + run_of.out();
  const Outcome trained = run(run_of.train(options + " --epochs 10 --pp 2 --validation 0.2"));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("test r2"));

  const auto measured = nlohmann::json::parse(run("evaluate --json --model " + run_of.out()).out);
  EXPECT_EQ(measured["samples"], 4);
  EXPECT_GT(measured["r2"], 0.9);
  const Outcome predicted =
      run("predict --model " + run_of.out() + " --data " + shell_quoted(run_of.folder / "data/x.npy") +
          " --dp 2 --batch 7 --out " + shell_quoted(run_of.folder / "y.npy"));
  EXPECT_THAT(predicted.out, HasSubstr("y.npy: [40, 2]")) << predicted.err;
  const Outcome exported = run("export --model " + run_of.out() + " --out " + shell_quoted(run_of.folder / "state"));
  ASSERT_EQ(exported.code, 0) << exported.err;
  const at::Tensor scale = train::SafetensorsFile(run_of.folder / "state").read("scale");
  const at::Tensor x = train::read_npy(run_of.folder / "data/x.npy");
  EXPECT_TRUE(at::allclose(train::read_npy(run_of.folder / "y.npy"), at::relu(x * scale)));

  const Outcome resumed = run("train --resume " + run_of.out() + " --epochs 12 --pp 1 --dp 2");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("begins after step 50"));
  EXPECT_THAT(run("train --resume " + run_of.out() + " --epochs 14 --dp 1 --masks torch").err,
              HasSubstr("--masks torch: a resumed run would draw from the beginning again"));
}

TEST(TrainProgram, refuses_what_means_nothing_for_a_program_by_name) {
  const SmallProgramRun run_of;
  const auto expect = [&](const std::string& options, const char* what) {
    const Outcome refused = run(run_of.train("--loss mse --out " + run_of.out() + " " + options));
    EXPECT_EQ(refused.code, 2) << options;
    EXPECT_THAT(refused.err, HasSubstr(what));
    EXPECT_EQ(lines_of(refused.err).size(), 1u) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(run_of.folder / "run"));
  };
  for (const char* option : {"--layers 2", "--hidden 64", "--preset tiny", "--dropout 0.1"})
    expect(option, "is for adjoin's own models, and --program gives the network");
  for (const char* option : {"--cp 2", "--dp 2 --ep 2", "--tp 2 --sp", "--pp 2 --stages 1,1"})
    expect(option, ": a program is not laid out so yet");
  expect("--optimizer muon", "--optimizer muon");
  expect("--recompute segment", "recompute: it has no list of modules, such as blocks");
  expect("--pp 3", "it has 2 operators, and cannot be cut into 3 stages");
  expect("--text-column a", "--text-column is for texts, which --program reads with --vocab");
  expect("--microbatches 2 --batch 5", "the last step of an epoch has 1 sample");
  expect("--vocab bytes", "--loss is for --program on tensors");
  expect("--masks torch --dp 2", "--masks torch is for a --program on one rank");
  EXPECT_THAT(run(run_of.train("--loss mse --dry-run")).out, HasSubstr("memory of a rank's tensors in a step"));
  EXPECT_THAT(run("train --loss mse --data sample --out " + run_of.out()).err,
              HasSubstr("--loss is for --program on tensors"));
}

TEST(TrainProgram, is_planned_in_all_layouts) {
  const SmallProgramRun run_of;
  const Outcome planned = run("plan" + run_of.train("--loss mse --batch 6 --ranks 2 --memory 1 --json").substr(5));
  EXPECT_THAT(planned.err, HasSubstr("--memory 1 is less than any layout of 2 ranks needs"));
  const auto json = nlohmann::json::parse(planned.out);  // nothing is measured where nothing fits
  std::set<std::string> axes;
  for (const auto& layout : json.at("too_large"))
    for (const char* axis : {"dp", "ep", "pp", "cp", "tp"})
      if (layout.at(axis) == 2) axes.insert(axis);
  EXPECT_EQ(axes, (std::set<std::string>{"dp", "pp", "tp"}));
}

}  // namespace
}  // namespace adjoin::cli
