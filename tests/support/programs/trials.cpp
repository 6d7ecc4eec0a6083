#include "tests/support/programs/trials.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tests/support/scale.hpp"

namespace adjoin::testing::programs {

namespace {

/// The environment's ADJOIN_TEST_SEED, 0 without it.
uint64_t only_seed() {
  const char* text = std::getenv("ADJOIN_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 0;
}

}  // namespace

std::vector<uint64_t> seeds(uint64_t count) {
  if (const uint64_t only = only_seed(); only > 0) return {only};
  std::vector<uint64_t> all;
  for (uint64_t seed = 1; seed <= count * static_cast<uint64_t>(test::scale()); ++seed) all.push_back(seed);
  return all;
}

void for_each_seed(const std::vector<uint64_t>& seeds, int at_a_time, const std::function<void(uint64_t)>& work) {
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> workers;
  for (int i = 0; i < at_a_time; ++i)
    workers.emplace_back([&] {
      for (size_t mine = next++; mine < seeds.size(); mine = next++) work(seeds[mine]);
    });
}

HangGuard::HangGuard(std::string text, std::chrono::seconds limit)
    : thread_([this, text = std::move(text), limit] {
        std::unique_lock lock(mutex_);
        if (over_.wait_for(lock, limit, [&] { return is_over_; })) return;
        std::fprintf(stderr, "did not end within %lld s:\n%s", static_cast<long long>(limit.count()), text.c_str());
        std::fflush(stderr);
        std::abort();
      }) {}

HangGuard::~HangGuard() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_one();
  thread_.join();
}

}  // namespace adjoin::testing::programs
