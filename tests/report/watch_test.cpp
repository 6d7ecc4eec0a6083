#include "adjoin/report/watch.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <optional>
#include <sstream>
#include <thread>

#include "adjoin/base/error.hpp"
#include "adjoin/store/output_folder.hpp"
#include "adjoin/train/progress.hpp"
#include "run_folders.hpp"

namespace adjoin::report {
namespace {

using namespace std::chrono_literals;
using test::make_run;
using test::TemporaryFolder;
using testing::HasSubstr;

constexpr auto kNextLook = 500ms;  // more than two looks take

std::string watched(const std::filesystem::path& folder, int columns = 0) {
  std::ostringstream out;
  watch(folder.string(), {out, [columns] { return columns; }});
  return out.str();
}

void begin_run(const std::filesystem::path& folder, int64_t steps) {
  make_run(folder, 2);
  train::write_beginning(folder, {.configuration = test::tiny_with_ranks(1, 1, 1), .steps = steps});
}

TEST(Watch, of_a_finished_run_says_how_it_ended) {
  const TemporaryFolder folder;
  begin_run(folder / "a", 2);
  test::put_summary(folder / "a", test::summary_of(test::tiny_with_ranks(1, 1, 1)));
  EXPECT_EQ(watched(folder / "a"),
            "step 2/2  loss 0.9750  256.0 samples/s  0:00 left\n"
            "finished  test loss 0.2500  test accuracy 0.7500\n");
}

TEST(Watch, follows_a_run_until_it_ends) {
  const TemporaryFolder folder;
  std::optional<train::OutputFolder> held(folder / "a");
  std::ostringstream out;
  std::thread training([&] {
    std::this_thread::sleep_for(kNextLook);
    begin_run(folder / "a", 4);
    std::this_thread::sleep_for(kNextLook);
    train::MetricsFile metrics(folder / "a" / train::kMetrics, 2);
    for (int64_t step = 3; step <= 4; ++step) metrics.add(train::StepMetrics{.step = step, .loss = 3});
    metrics.add(train::EvaluationMetrics{.step = 4, .is_validation = true, .loss = 7, .measures = {{"accuracy", 0.5}}});
    std::this_thread::sleep_for(kNextLook);
    test::put_summary(folder / "a", test::summary_of(test::tiny_with_ranks(1, 1, 1)));
    held.reset();
  });
  watch((folder / "a").string(), {out, [] { return 0; }});
  training.join();
  const std::string text = out.str();
  EXPECT_THAT(text, testing::StartsWith("the run has not taken a step yet\nstep 2/4  loss 0.9750"));
  EXPECT_THAT(text, HasSubstr("step 4  validation loss 7.0000  accuracy 0.5000\n"));
  EXPECT_THAT(text, HasSubstr("step 4/4  loss 1.1724"));
  EXPECT_THAT(text, testing::EndsWith("finished  test loss 0.2500  test accuracy 0.7500\n"));
}

TEST(Watch, redraws_its_line_on_a_terminal_and_keeps_within_it) {
  const TemporaryFolder folder;
  begin_run(folder / "a", 2);
  test::put_summary(folder / "a", test::summary_of(test::tiny_with_ranks(1, 1, 1)));
  const std::string text = watched(folder / "a", 40);
  EXPECT_EQ(text.substr(0, text.find('\n')), "\rstep 2/2  loss 0.9750  0:00 left\x1b[K");
}

TEST(Watch, of_a_run_that_has_ended_early_says_so) {
  const TemporaryFolder folder;
  begin_run(folder / "a", 9);
  EXPECT_EQ(test::message_of<Error>([&] { watched(folder / "a"); }),
            (folder / "a").string() + ": the run has ended at step 2 without a result");
}

TEST(Watch, waits_for_a_run_that_has_not_begun) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "a");
  test::put(folder / "a" / ".adjoin", "");
  std::thread training([&] {
    std::this_thread::sleep_for(kNextLook);
    const train::OutputFolder held(folder / "a");
    begin_run(folder / "a", 2);
    test::put_summary(folder / "a", test::summary_of(test::tiny_with_ranks(1, 1, 1)));
  });
  EXPECT_THAT(watched(folder / "a"), testing::StartsWith("the run has not begun; waiting for it\n"));
  training.join();
}

TEST(Watch, waits_for_a_folder_that_does_not_exist_or_is_empty) {
  for (const bool is_empty : {false, true}) {
    const TemporaryFolder folder;
    if (is_empty) std::filesystem::create_directory(folder / "a");
    std::thread training([&] {
      std::this_thread::sleep_for(kNextLook);
      const train::OutputFolder held(folder / "a");
      begin_run(folder / "a", 2);
      test::put_summary(folder / "a", test::summary_of(test::tiny_with_ranks(1, 1, 1)));
    });
    EXPECT_THAT(watched(folder / "a"),
                testing::StartsWith(is_empty ? "the run has not begun; waiting for it\n"
                                             : (folder / "a").string() +
                                                   " does not exist yet; waiting for a run to begin there\n"));
    training.join();
  }
}

TEST(Watch, refuses_what_is_no_run) {
  const TemporaryFolder folder;
  for (const char* name : {"nowhere/a", "nowhere/a/"})
    EXPECT_EQ(test::message_of<InvalidArgument>([&] { watched(folder / name); }),
              (folder / name).string() + ": there is no such folder");
  test::put(folder / "letter", "to nobody");
  EXPECT_EQ(test::message_of<InvalidArgument>([&] { watched(folder.path()); }),
            folder.path().string() + ": is not an output folder of adjoin train");
  EXPECT_THAT(test::message_of<InvalidArgument>([&] { watched(folder / "letter"); }), HasSubstr("is not a folder"));
}

TEST(Watch, shows_the_loss_that_training_shows) {
  const TemporaryFolder folder;
  begin_run(folder / "a", 2);
  test::put_summary(folder / "a", test::summary_of(test::tiny_with_ranks(1, 1, 1)));
  std::ostringstream shown;
  {
    train::ProgressBar bar(2, 0, shown, [] { return 0; });
    for (int64_t step = 1; step <= 2; ++step) bar.update(step, 1.0 / static_cast<double>(step), 1);  // as make_run
  }
  const auto loss_in = [](const std::string& text) { return text.substr(text.find("  loss "), 13); };
  EXPECT_EQ(loss_in(watched(folder / "a")), loss_in(shown.str()));
}

TEST(Watch, forgets_the_loss_before_the_step_from_which_training_goes_on) {
  const TemporaryFolder folder;
  make_run(folder / "a", 2);
  train::write_beginning(folder / "a", {.configuration = test::tiny_with_ranks(1, 1, 1), .first_step = 1, .steps = 2});
  test::put_summary(folder / "a", test::summary_of(test::tiny_with_ranks(1, 1, 1)));
  EXPECT_THAT(watched(folder / "a"), testing::StartsWith("step 2/2  loss 0.5000"));
}

}  // namespace
}  // namespace adjoin::report
