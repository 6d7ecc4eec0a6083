#include "adjoin/train/interrupt.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace adjoin::train {
namespace {

TEST(Interrupt, is_noted_and_answered_at_the_first_signal_and_forgotten_with_the_guard) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const InterruptGuard guard("adjoin: interrupted\n");
    EXPECT_FALSE(interrupted());
    ::testing::internal::CaptureStderr();
    std::raise(signal);
    EXPECT_TRUE(::testing::internal::GetCapturedStderr().ends_with("adjoin: interrupted\n"));
    EXPECT_TRUE(interrupted());
    EXPECT_EQ(interrupting_signal(), signal);
  }
}

TEST(Interrupt, is_answered_by_one_process_of_a_job) {
  const InterruptGuard guard("");
  ::testing::internal::CaptureStderr();
  std::raise(SIGINT);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Interrupt, is_no_hang_up_where_these_are_ignored) {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  {
    const InterruptGuard guard("");
    std::raise(SIGHUP);
    EXPECT_FALSE(interrupted());
  }
  std::signal(SIGHUP, before);
}

TEST(InterruptDeathTest, ends_the_program_at_the_second_signal) {
  const auto twice = [](int signal) {
    const InterruptGuard guard("");
    std::raise(signal);
    std::raise(signal);
  };
  EXPECT_EXIT(twice(SIGINT), ::testing::ExitedWithCode(130), "");
  EXPECT_EXIT(twice(SIGTERM), ::testing::ExitedWithCode(143), "");
  EXPECT_EXIT(twice(SIGHUP), ::testing::ExitedWithCode(129), "");
}

TEST(InterruptDeathTest, leaves_signals_as_they_were_after_the_guard) {
  const auto after = [] {
    { const InterruptGuard guard(""); }
    std::raise(SIGTERM);
  };
  EXPECT_EXIT(after(), ::testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace adjoin::train
