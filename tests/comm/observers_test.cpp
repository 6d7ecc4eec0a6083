#include "adjoin/comm/observers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace adjoin {
namespace {

using ::testing::ElementsAre;

/// Writes what it sees into a list that it shares with others.
class Writing final : public Observer {
 public:
  Writing(std::string name, std::vector<std::string>& seen) : name_(std::move(name)), seen_(seen) {}

  void begin(const Call& call) override { seen_.push_back(name_ + " begins " + std::string(call.name)); }
  void end(const Call& call) override { seen_.push_back(name_ + " ends " + std::string(call.name)); }
  void begin_wait(const Call* send) override { seen_.push_back(name_ + " waits for " + std::string(send->name)); }
  void end_wait(const Call* send) override { seen_.push_back(name_ + " waited for " + std::string(send->name)); }

 private:
  const std::string name_;
  std::vector<std::string>& seen_;
};

TEST(Observers, see_begins_in_their_order_and_ends_in_the_reverse_one) {
  std::vector<std::string> seen;
  const Communicator one = also_observed_by(Communicator(), std::make_shared<Writing>("a", seen));
  const Communicator both = also_observed_by(one, std::make_shared<Writing>("b", seen));
  both.split(0, 0)->barrier();
  EXPECT_THAT(seen, ElementsAre("a begins all_gather", "b begins all_gather", "b ends all_gather", "a ends all_gather",
                                "a begins barrier", "b begins barrier", "b ends barrier", "a ends barrier"));
  seen.clear();
  one.barrier();
  EXPECT_THAT(seen, ElementsAre("a begins barrier", "a ends barrier"));
}

TEST(Observers, see_waits_as_they_see_calls) {
  std::vector<std::string> seen;
  Observers both({std::make_shared<Writing>("a", seen), std::make_shared<Writing>("b", seen)});
  const Call send{.name = "isend"};
  { const ObservedWait wait(&both, &send); }
  EXPECT_THAT(seen, ElementsAre("a waits for isend", "b waits for isend", "b waited for isend", "a waited for isend"));
}

}  // namespace
}  // namespace adjoin
