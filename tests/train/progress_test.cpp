#include "adjoin/train/progress.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

namespace adjoin::train {
namespace {

TEST(ClockTime, shows_minutes_and_hours) {
  EXPECT_EQ(clock_time(0), "0:00");
  EXPECT_EQ(clock_time(64.6), "1:05");
  EXPECT_EQ(clock_time(7389), "2:03:09");
  EXPECT_EQ(clock_time(INFINITY), "-:--");
  EXPECT_EQ(clock_time(NAN), "-:--");
}

TEST(ProgressLine, has_step_loss_speed_and_time_left) {
  const Progress half{.step = 50, .steps = 100, .loss = 0.69314, .samples_per_second = 123.45, .seconds_left = 65};
  EXPECT_EQ(progress_line(half), "step  50/100  loss 0.6931  123.5 samples/s  1:05 left");
}

TEST(ProgressLine, fits_a_terminal_of_any_width_with_a_bar_where_there_is_room) {
  const Progress half{.step = 50, .steps = 100, .loss = 0.69314, .samples_per_second = 123.45, .seconds_left = 65};
  const std::string all = "step  50/100  loss 0.6931  123.5 samples/s  1:05 left";
  EXPECT_EQ(progress_bar(half, 200), "[============            ] " + all);
  EXPECT_EQ(progress_bar(half, 80), "[==========           ] " + all);
  EXPECT_EQ(progress_bar(half, 62), all);
  EXPECT_EQ(progress_bar(half, 52), "[=====     ] step  50/100  loss 0.6931  1:05 left");
  EXPECT_EQ(progress_bar(half, 30), "step  50/100  loss 0.6931");
  EXPECT_EQ(progress_bar(half, 20), "step  50/100");
  for (int columns = 1; columns < 120; ++columns)
    EXPECT_LE(progress_bar(half, columns).size(), static_cast<size_t>(std::max(columns - 3, 0))) << "no room for ^C";
}

TEST(ProgressBar, prints_only_the_last_of_quick_steps_where_there_is_no_terminal) {
  std::ostringstream out;
  {
    ProgressBar bar(10, 0, out, /*columns=*/[] { return 0; });
    for (int step = 1; step <= 10; ++step) bar.update(step, 0.5, 32);
  }
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(text.find("step 10/10  loss 0.5000  "), 0u) << text;
  EXPECT_NE(text.find("0:00 left"), std::string::npos);
}

TEST(ProgressBar, leaves_a_loss_that_is_no_number_out_of_the_smoothed_one) {
  std::ostringstream out;
  ProgressBar bar(3, 0, out, /*columns=*/[] { return 0; });
  for (const double loss : {std::nan(""), 0.5, std::nan("")}) bar.update(3, loss, 32);
  EXPECT_NE(out.str().rfind("  loss 0.5000  "), std::string::npos);
}

TEST(ProgressLine, has_no_loss_where_there_is_none) {
  const Progress half{.step = 5, .steps = 10, .samples_per_second = 10, .seconds_left = 5};
  EXPECT_EQ(progress_line(half), "step  5/10  10.0 samples/s  0:05 left");
}

TEST(ProgressBar, redraws_one_line_on_a_terminal_and_ends_it_once) {
  std::ostringstream out;
  {
    ProgressBar bar(2, 0, out, /*columns=*/[] { return 80; });
    bar.update(2, 0.5, 32);
    bar.update(2, 0.5, 32);
    bar.pause();
  }
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 2);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(text.back(), '\n');
}

TEST(ProgressBar, follows_the_width_of_its_terminal) {
  std::ostringstream out;
  int columns = 100;
  ProgressBar bar(2, 0, out, [&] { return columns; });
  bar.update(2, 0.5, 32);
  const size_t first = out.str().size();
  columns = 30;
  bar.update(2, 0.5, 32);
  EXPECT_GT(first, 70u);
  EXPECT_LT(out.str().size() - first, 30 + std::string("\r\x1b[K").size());
}

}  // namespace
}  // namespace adjoin::train
