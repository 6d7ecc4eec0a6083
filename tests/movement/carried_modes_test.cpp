#include <ATen/autocast_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <functional>

#include "adjoin/comm/launch.hpp"

namespace adjoin {
namespace {

/// Runs `check` on two threads that are launched here.
void on_two_ranks(const std::function<void()>& check) {
  launch_threads(2, [&](const Communicator&) { check(); });
}

TEST(CarriedModes, hold_in_the_ranks_of_a_launch) {
  {
    const at::NoGradGuard no_grad;
    on_two_ranks([] { EXPECT_FALSE(at::GradMode::is_enabled()); });
  }
  {
    const c10::InferenceMode inference;
    on_two_ranks([] {
      EXPECT_TRUE(c10::InferenceMode::is_enabled());
      EXPECT_TRUE(at::ones({2}).is_inference());
    });
  }
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    at::autocast::set_autocast_dtype(at::kCPU, type);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    on_two_ranks([&] {
      EXPECT_EQ(at::mm(at::ones({2, 2}), at::ones({2, 2})).scalar_type(), type);
      EXPECT_FALSE(at::autocast::is_autocast_cache_enabled());  // the ranks share it
    });
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  on_two_ranks([] {
    EXPECT_TRUE(at::GradMode::is_enabled());
    EXPECT_FALSE(c10::InferenceMode::is_enabled());
    EXPECT_EQ(at::mm(at::ones({2, 2}), at::ones({2, 2})).scalar_type(), at::kFloat);
  });
}

}  // namespace
}  // namespace adjoin
