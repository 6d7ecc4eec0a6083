// `--device`: the program on a device that is preloaded into it, and what it says where there is none.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Surroundings with_device() {
  const fs::path library = ADJOIN_SIMULATED_DEVICE;  // whose path LD_PRELOAD would cut at spaces
  return {.environment = "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 LD_LIBRARY_PATH=" +
                         shell_quoted(library.parent_path()) + " LD_PRELOAD=" + shell_quoted(library.filename())};
}
const Surroundings kWithDevice = with_device();
const std::string kOnDevice = " --device privateuseone ";

Outcome well(const std::string& arguments, bool on_device) {
  const Outcome outcome = on_device ? run(arguments + kOnDevice, kWithDevice) : run(arguments);
  EXPECT_EQ(outcome.code, 0) << arguments << '\n' << outcome.err;
  return outcome;
}

const std::string kExact = kSmallRun + "--precision fp64 ", kThreeSteps = kExact + "--steps 3 ";

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], tolerance * std::abs(expected[i])) << "step " << i;
}

/// The losses of a training on the device and on the CPU's one rank.
void expect_as_on_cpu(const std::string& model, const std::vector<std::string>& layouts, double tolerance = 1e-9) {
  const TemporaryFolder folder;
  well(model + into(folder / "cpu"), false);
  const std::vector<double> expected = losses_of(folder / "cpu");
  for (const std::string& layout : layouts) {
    SCOPED_TRACE(layout);
    const fs::path out = folder / layout;
    well(model + " " + layout + into(out), true);
    expect_near(losses_of(out), expected, tolerance);
  }
}

TEST(OnDevice, a_classifier_trains_as_on_the_cpu) {
  expect_as_on_cpu(kThreeSteps + "--dropout 0.1",
                   {"--dp 2 --zero 3", "--tp 2 --sp --zero 2", "--pp 2 --microbatches 2 --recompute segment",
                    "--cp 2 --cp-method gathered --recompute attention"});
}

TEST(OnDevice, a_decoder_with_experts_trains_as_on_the_cpu) {
  expect_as_on_cpu(kThreeSteps + "--model decoder --experts 4 --positions rotary --key-heads 2 --dropout 0.1",
                   {"--dp 2 --ep 2", "--tp 2 --zero 3", "--cp 2 --cp-method ulysses"});
}

TEST(OnDevice, sixteen_bits_train_about_as_on_the_cpu) {
  for (const std::string precision : {"bf16", "fp16"})
    expect_as_on_cpu(kSmallRun + "--steps 3 --precision " + precision, {"--dp 2", "--fast"}, 1e-2);
}

TEST(OnDevice, a_checkpoint_goes_on_from_any_device_to_any_other) {
  const TemporaryFolder folder;
  const std::string model = kExact + "--schedule constant --warmup 0 --steps ";
  well(model + "4" + into(folder / "whole"), false);
  well(model + "2 --tp 2" + into(folder / "begun"), true);
  const std::string resumed = "train --resume " + shell_quoted(folder / "begun");
  well(resumed + " --steps 3 --device cpu", false);
  well(resumed + " --steps 4 --dp 2 --tp 1 --zero 3", true);
  expect_near(losses_of(folder / "begun"), losses_of(folder / "whole"), 1e-9);

  const std::string used = " --model " + shell_quoted(folder / "begun") + " --json";
  const auto loss = [&](bool on_device) {
    const Outcome outcome = well("evaluate --data sample --samples 48" + used, on_device);
    return nlohmann::json::parse(outcome.out).at("loss").get<double>();
  };
  EXPECT_NEAR(loss(true), loss(false), 1e-9);
  put(folder / "text", "a good film\n");
  const auto predicted = [&](Surroundings where, const std::string& device) {
    where.input = (folder / "text").string();
    return nlohmann::json::parse(run_well("predict" + used + device, where).out);
  };
  EXPECT_EQ(predicted(kWithDevice, kOnDevice).at("label"), predicted({}, "").at("label"));
}

TEST(OnDevice, a_decoder_writes_as_on_the_cpu) {
  const TemporaryFolder folder;
  well(kThreeSteps + "--model decoder" + into(folder / "run"), true);
  const std::string write = "generate film --tokens 8 --threads-per-rank 1 --model " + shell_quoted(folder / "run");
  EXPECT_EQ(well(write, true).out, well(write, false).out);
}

TEST(OnDevice, times_are_left_out_that_the_hosts_clock_does_not_see) {
  const TemporaryFolder folder;
  EXPECT_THAT(well(kThreeSteps + into(folder / "run"), true).out, ::testing::Not(HasSubstr("communicating")));
  for (const nlohmann::json& step : lines_of_kind(folder / "run", "step")) {
    EXPECT_FALSE(step.contains("waiting_seconds"));
    EXPECT_TRUE(step.contains("step_seconds"));
  }
}

TEST(Device, that_is_not_here_is_refused_in_one_line) {
  const TemporaryFolder folder;
  const std::string train = kThreeSteps + into(folder / "run") + " --device ";
  const std::string evaluate = "evaluate --model " + shell_quoted(folder / "run") + " --device ";
  expect_refused(run(train + "cuda"), "--device cuda: is not on this machine; LibTorch finds no device");
  expect_refused(run(train + "cuda:9"), "--device cuda:9: is not on this machine");
  expect_refused(run(train + "cpu --fast"), "--fast is for --device cuda, and --device is cpu");
  expect_refused(run(train + "gpu"), "--device gpu: expected cpu, cuda or cuda with a number, as cuda:1");
  expect_refused(run(train + "privateuseone:2", kWithDevice),
                 "--device privateuseone:2: is not on this machine; LibTorch finds privateuseone (2)");
  expect_refused(run(train + "privateuseone --dry-run", kWithDevice),
                 "--device privateuseone: a plan is of the CPU's memory and time");
  EXPECT_FALSE(fs::exists(folder / "run"));
}

}  // namespace
}  // namespace adjoin::cli
