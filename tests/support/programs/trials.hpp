#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

/// How many programs are tried, and which.
namespace adjoin::testing::programs {

/// `ADJOIN_TEST_SEED`: the one program to run again; else the first `count` seeds from 1 on, times `ADJOIN_TEST_SCALE`.
std::vector<uint64_t> seeds(uint64_t count);

/// Calls `work` for each seed, several at a time: a program that goes wrong mostly waits.
void for_each_seed(const std::vector<uint64_t>& seeds, int at_a_time, const std::function<void(uint64_t seed)>& work);

/// Ends the process with `text` where it lives longer than a program may take, so that a hang has a seed.
class HangGuard {
 public:
  explicit HangGuard(std::string text, std::chrono::seconds limit = std::chrono::seconds(60));
  ~HangGuard();

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace adjoin::testing::programs
