#include "adjoin/base/thread_memory.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

namespace adjoin {
namespace {

class ThreadMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!memory_) GTEST_SKIP() << "under AddressSanitizer, or where there are no such addresses";
  }
  void* on_a_thread_of_its_own(size_t bytes) {
    void* block = nullptr;
    std::thread([&] { block = memory_->allocate(bytes); }).join();
    return block;
  }

  ThreadMemory* memory_ = ThreadMemory::of_process();
};

TEST_F(ThreadMemoryTest, gives_a_thread_what_it_had_before) {
  void* const block = memory_->allocate(1 << 20);
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(memory_->holds(block));
  EXPECT_FALSE(memory_->holds(this));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
  std::memset(block, 1, 1 << 20);
  std::thread([&] {
    memory_->free(block);
    void* const other = memory_->allocate(1 << 20);
    EXPECT_NE(other, block);
    memory_->free(other);
  }).join();
  void* const again = memory_->allocate(1 << 20);
  EXPECT_EQ(again, block);
  memory_->free(again);
}

TEST_F(ThreadMemoryTest, gives_a_new_thread_the_part_of_one_that_has_ended) {
  void* const first = on_a_thread_of_its_own(100'000);
  memory_->free(first);
  void* const second = on_a_thread_of_its_own(100'000);
  EXPECT_EQ(second, first);
  memory_->free(second);
}

TEST_F(ThreadMemoryTest, keeps_the_same_blocks_of_two_threads_apart_in_their_caches) {
  void *first = nullptr, *second = nullptr;
  std::thread([&] {
    first = memory_->allocate(100'000);
    second = on_a_thread_of_its_own(100'000);
  }).join();
  const auto page = [](void* block) { return reinterpret_cast<uintptr_t>(block) / 4096 % 256; };
  EXPECT_NE(page(first), page(second));
  memory_->free(first);
  memory_->free(second);
}

TEST_F(ThreadMemoryTest, is_for_more_threads_than_it_has_parts) {
  constexpr int kThreads = ThreadMemory::kParts + 20;
  std::atomic<int> begun = 0;
  std::vector<void*> blocks(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      blocks[static_cast<size_t>(i)] = memory_->allocate(5000);
      begun.fetch_add(1);
      while (begun.load() < kThreads) std::this_thread::yield();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), static_cast<size_t>(kThreads));
  EXPECT_EQ(std::count(blocks.begin(), blocks.end(), nullptr), 0);
  for (void* block : blocks) memory_->free(block);
}

TEST_F(ThreadMemoryTest, refuses_more_than_any_machine_has) {
  EXPECT_EQ(memory_->allocate(SIZE_MAX / 4), nullptr);
  EXPECT_EQ(memory_->allocate(size_t{1} << 45), nullptr);
}

TEST_F(ThreadMemoryTest, may_be_used_by_the_child_of_a_fork) {
  std::atomic<bool> ends = false;
  std::thread busy([&] {
    while (!ends) memory_->free(memory_->allocate(10'000));
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::alarm(10);  // rather than wait for ever
      void* const block = memory_->allocate(10'000);
      memory_->free(block);
      ::_exit(block ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
  }
  ends = true;
  busy.join();
}

}  // namespace
}  // namespace adjoin
