#include "adjoin/movement/on_threads.hpp"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace adjoin {
namespace {

/// Gives LibTorch three threads for a test.
class OnThreads : public ::testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(3); }
  void TearDown() override { at::set_num_threads(threads_); }

 private:
  int threads_ = at::get_num_threads();
};

TEST_F(OnThreads, a_loop_runs_on_all_threads_and_does_everything_once) {
  std::vector<int> times(1000);
  std::set<std::thread::id> threads;
  std::mutex mutex;
  on_threads(1000, 10, [&](Range part) {
    for (int64_t i = part.begin; i < part.end; ++i) ++times[static_cast<size_t>(i)];
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(times, std::vector<int>(1000, 1));
  EXPECT_EQ(threads.size(), 3u);
  on_threads(0, 1, [](Range) { FAIL(); });
  on_threads(15, 10, [&](Range part) { EXPECT_TRUE(part.size() >= 5 && part.size() <= 10); });
}

TEST_F(OnThreads, pieces_begin_at_multiples_and_have_one_thread_each) {
  for (const int64_t size : {1, 16, 17, 40, 100}) {
    std::vector<int> times(static_cast<size_t>(size));
    std::mutex mutex;
    on_one_thread_each(size, 16, [&](Range piece) {
      const std::lock_guard lock(mutex);
      EXPECT_EQ(piece.begin % 16, 0);
      EXPECT_EQ(at::get_num_threads(), 1);
      EXPECT_TRUE(at::in_parallel_region());
      for (int64_t i = piece.begin; i < piece.end; ++i) ++times[static_cast<size_t>(i)];
    });
    EXPECT_EQ(times, std::vector<int>(static_cast<size_t>(size), 1));
    EXPECT_EQ(at::get_num_threads(), 3);
  }
}

TEST_F(OnThreads, an_exception_of_any_thread_arrives) {
  EXPECT_THROW(on_threads(100, 1,
                          [](Range part) {
                            if (part.end == 100) throw std::runtime_error("the last part");
                          }),
               std::runtime_error);
}

}  // namespace
}  // namespace adjoin
