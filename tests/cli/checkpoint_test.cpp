#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.hpp"
#include "tests/support/file_faults.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kThreeTimes = "--checkpoint-every 2 ";  // of six steps

/// A training of one epoch with faults below its folder.
class Checkpoints : public testing::Test {
 protected:
  Outcome train(const std::string& arguments, const std::vector<std::string>& faults) const {
    std::string environment;
    if (!faults.empty())
      for (const std::string& variable : with_file_faults(out(), faults)) environment += shell_quoted(variable) + " ";
    return run(kSmallRun + "--epochs 1 " + arguments + into(out()), {.environment = environment});
  }
  fs::path out() const { return folder_ / "run"; }
  TemporaryFolder folder_;
};

TEST_F(Checkpoints, are_on_the_disk_before_the_renames_that_publish_them) {
  const fs::path log = folder_ / "log";
  ASSERT_EQ(train(kThreeTimes + "--tp 2", {"LOG=" + log.string()}).code, 0);
  const FileOrder order(contents_of(log));
  EXPECT_THAT(order.violations, IsEmpty());
  EXPECT_GE(order.counts.at("rename"),
            3 * (4 + 1) + 1 + 5);  // four files beside the tensors, the folder; an old one aside; the finished model
}

TEST_F(Checkpoints, are_saved_where_earlier_ones_cannot_be_removed) {
  const Outcome outcome = train(kThreeTimes, {"KEEP=.old"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("warning: " + out().string() + ": an earlier checkpoint cannot be removed"));
  EXPECT_THAT(contents_of(checkpoint_of(out()) / "state.json"), HasSubstr("\"step\": 6,"));
  EXPECT_TRUE(fs::exists(out() / "checkpoints" / "step-2.old"));
}

TEST_F(Checkpoints, survive_a_kill_between_any_two_operations_on_files) {
  for (int n = 8; n < 250; n += 40) {  // a few of them: KilledSaves tries every one, without the training
    SCOPED_TRACE("killed before operation " + std::to_string(n));
    const Outcome killed = train(kThreeTimes + "--overwrite", {"KILL=" + std::to_string(n)});
    ASSERT_EQ(killed.code, 128 + SIGKILL) << killed.err;
    const Outcome resumed = train(kThreeTimes + "--overwrite --resume auto", {});
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(lines_of(contents_of(metrics_of(out()))).size(), 7u);  // six steps and the evaluation
  }
}

}  // namespace
}  // namespace adjoin::cli
