#include "adjoin/lab/self_test.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "adjoin/base/error.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/steps_backend.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using testing::for_each_world;
using testing::kIsSanitized;
using testing::StepsBackend;
using WorldSizes = std::vector<int>;

std::vector<std::string> failed_operations(const std::vector<SelfTestResult>& results) {
  std::vector<std::string> failed;
  for (const SelfTestResult& result : results)
    if (!result.ok()) failed.push_back(result.operation);
  return failed;
}

/// A backend that does all that another does, but for one operation, whose result it alters on the last rank: the first
/// element of float32 is one too large. Its barrier waits for nobody, its subset turns the members around.
class LyingBackend final : public Backend {
 public:
  LyingBackend(const Communicator& group, std::string lie) : group_(group), lie_(std::move(lie)) {}

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  void exchange(std::span<const Message> messages, const Call&) override {
    group_.exchange(messages);
    for (const Message& message : messages)
      if (message.kind == Message::Kind::receive) alter(message.buffer, "exchange");
  }
  std::shared_ptr<Backend> subset(std::span<const int> ranks, const Call&) override {
    std::vector<int> members(ranks.begin(), ranks.end());
    if (lie_ == "subset") std::reverse(members.begin(), members.end());
    return std::make_shared<LyingBackend>(group_.subset(members), lie_);
  }
  void abort(std::string_view reason) noexcept override { group_.abort(reason); }

  void run_collective(const Call& call) override {
    if (call.collective == Collective::barrier && lie_ == "barrier") return;
    group_.carry_out(Call(call));
    const bool has_result = call.collective == Collective::broadcast || call.collective == Collective::scatter ||
                            !has_root(*call.collective) || call.rank == call.root;
    if (has_result) alter(call.out, call.name);
  }

 private:
  void alter(Buffer result, std::string_view operation) const {
    if (operation == lie_ && rank() == size() - 1 && result.type == ElementType::float32 && result.count > 0)
      *static_cast<float*>(result.data) += 1;
  }

  Communicator group_;
  std::string lie_;
};

TEST(SelfTest, names_every_operation_and_finds_nothing_wrong) {
  for_each_world(kIsSanitized ? WorldSizes{4} : WorldSizes{1, 2, 3, 4, 5}, [](const Communicator& world) {
    std::vector<std::string> tried;
    for (const SelfTestResult& result : self_test(world)) {
      EXPECT_EQ(result.failure, "") << result.operation;
      tried.push_back(result.operation);
    }
    EXPECT_THAT(tried,
                ElementsAre("send", "recv", "sendrecv", "exchange", "barrier", "broadcast", "reduce", "all_reduce",
                            "gather", "scatter", "all_gather", "reduce_scatter", "all_to_all", "split", "subset"));
  });
}

TEST(SelfTest, finds_nothing_wrong_with_a_backend_that_has_only_exchange) {
  for_each_world(kIsSanitized ? WorldSizes{3} : WorldSizes{1, 2, 3, 4}, [](const Communicator& world) {
    EXPECT_THAT(failed_operations(self_test(Communicator(std::make_shared<StepsBackend>(world)))), ElementsAre());
  });
}

TEST(SelfTest, notices_each_operation_that_alters_a_result) {
  const std::vector<const char*> lies =
      kIsSanitized ? std::vector{"barrier", "all_reduce", "all_to_all"}
                   : std::vector{"barrier", "broadcast",  "reduce",         "all_reduce", "gather",
                                 "scatter", "all_gather", "reduce_scatter", "all_to_all"};
  for_each_world({3}, [&](const Communicator& world) {
    const auto found_with = [&](const char* lie) {
      return failed_operations(self_test(Communicator(std::make_shared<LyingBackend>(world, lie))));
    };
    for (const char* lie : lies) {
      auto found = found_with(lie);
      // On a busy machine ranks may arrive so late themselves that nobody misses the barrier.
      for (int tries = 0; lie == std::string_view("barrier") && tries < 20; ++tries) {
        int64_t is_missed = found.empty() ? 1 : 0;
        world.broadcast({&is_missed, 1, ElementType::int64}, 0);
        if (is_missed == 0) break;
        found = found_with(lie);
      }
      if (world.rank() == 0) {
        EXPECT_THAT(found, ElementsAre(lie));
      }
    }
  });
}

TEST(SelfTest, notices_a_message_that_is_altered_in_every_operation_of_messages) {
  for_each_world(kIsSanitized ? WorldSizes{3} : WorldSizes{2, 3, 4}, [](const Communicator& world) {
    const auto results = self_test(Communicator(std::make_shared<LyingBackend>(world, "exchange")));
    const auto failed = failed_operations(results);
    // recv is tried on rank 0 alone, and only the last rank's results are altered
    if (world.rank() == 0) {
      EXPECT_THAT(failed, ElementsAre("send", "sendrecv", "exchange"));
    }
  });
}

TEST(SelfTest, notices_a_group_whose_ranks_are_in_another_order) {
  for_each_world(kIsSanitized ? WorldSizes{3} : WorldSizes{2, 3}, [](const Communicator& world) {
    const auto results = self_test(Communicator(std::make_shared<LyingBackend>(world, "subset")));
    if (world.rank() == 0) {
      EXPECT_THAT(failed_operations(results), ElementsAre("split", "subset"));
    }
  });
}

TEST(SelfTest, says_on_rank_0_where_what_was_expected_and_what_came) {
  for_each_world(kIsSanitized ? WorldSizes{3} : WorldSizes{2, 3}, [](const Communicator& world) {
    const auto results = self_test(Communicator(std::make_shared<LyingBackend>(world, "broadcast")));
    const auto broadcast = std::find_if(results.begin(), results.end(),
                                        [](const SelfTestResult& result) { return result.operation == "broadcast"; });
    ASSERT_NE(broadcast, results.end());
    // pattern(seed 0) begins with 0
    if (world.rank() == 0) {
      EXPECT_EQ(broadcast->failure,
                "rank " + std::to_string(world.size() - 1) + ": float32 x 1, root 0: expected 0 at element 0, got 1");
    }
  });
}

class ThrowingBackend final : public Backend {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void exchange(std::span<const Message>, const Call&) override { throw CommunicationError("the cable is out"); }
  std::shared_ptr<Backend> subset(std::span<const int>, const Call&) override {
    return std::make_shared<ThrowingBackend>();
  }
  void abort(std::string_view) noexcept override {}
};

TEST(SelfTest, names_the_operation_that_threw_and_what_was_begun) {
  std::vector<std::string> begun;
  try {
    self_test(Communicator(std::make_shared<ThrowingBackend>()),
              [&](std::string_view operation) { begun.emplace_back(operation); });
    FAIL() << "nothing was thrown";
  } catch (const CommunicationError& error) {
    EXPECT_STREQ(error.what(),
                 "self-test of sendrecv: the cable is out");  // the first that one rank needs messages for
  }
  EXPECT_THAT(begun, ElementsAre("send", "recv", "sendrecv"));
}

}  // namespace
}  // namespace adjoin
