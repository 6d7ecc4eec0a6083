#include "adjoin/train/interrupt.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace adjoin::train {
namespace {

TEST(Interrupt, is_noted_at_the_first_signal_and_forgotten_by_the_next_guard) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const InterruptGuard guard;
    EXPECT_FALSE(interrupted());
    std::raise(signal);
    EXPECT_TRUE(interrupted());
  }
}

TEST(InterruptDeathTest, ends_the_program_at_the_second_signal) {
  const auto twice = [](int signal) {
    const InterruptGuard guard;
    std::raise(signal);
    std::raise(signal);
  };
  EXPECT_EXIT(twice(SIGINT), testing::ExitedWithCode(130), "");
  EXPECT_EXIT(twice(SIGTERM), testing::ExitedWithCode(143), "");
}

TEST(InterruptDeathTest, leaves_signals_as_they_were_after_the_guard) {
  const auto after = [] {
    { const InterruptGuard guard; }
    std::raise(SIGTERM);
  };
  EXPECT_EXIT(after(), testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace adjoin::train
