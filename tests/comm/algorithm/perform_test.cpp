// Collectives by chosen algorithms: what they really send, and what others are told of them.

#include "adjoin/comm/algorithm/perform.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/async_communicator.hpp"
#include "adjoin/comm/launch.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/steps_backend.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;
using algorithm::Request;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A message, as far as a program says: whether it is sent, its peer and its elements.
using Line = std::tuple<bool, int, int64_t>;
using Lines = std::vector<std::vector<Line>>;  // of each exchange

/// Notes what goes through it to the backend that it stands before.
class Recorder final : public Backend {
 public:
  explicit Recorder(std::shared_ptr<Backend> inner) : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void exchange(std::span<const Message> messages, const Call& call) override {
    std::vector<Line>& lines = lines_.emplace_back();
    for (const Message& m : messages) {
      EXPECT_EQ(m.tag, kCollectiveTag);
      lines.emplace_back(m.kind == Message::Kind::send, m.peer, m.buffer.count);
    }
    inner_->exchange(messages, call);
  }
  std::shared_ptr<Backend> subset(std::span<const int> ranks, const Call& call) override {
    return inner_->subset(ranks, call);
  }
  void abort(std::string_view reason) noexcept override { inner_->abort(reason); }
  void run_collective(const Call& call) override {
    if (!call.algorithm.empty()) return Backend::run_collective(call);
    native_broadcasts += call.collective == Collective::broadcast;
    inner_->run_collective(call);
  }

  int native_broadcasts = 0;
  Lines take_lines() { return std::exchange(lines_, {}); }

 private:
  std::shared_ptr<Backend> inner_;
  Lines lines_;
};

void add_lines(Lines& lines, const algorithm::Program& program) {
  for (const algorithm::Step& step : program.steps) {
    if (step.transfers.empty()) continue;
    std::vector<Line>& these = lines.emplace_back();
    for (const algorithm::Transfer& t : step.transfers)
      these.emplace_back(t.kind == algorithm::Transfer::Kind::send, t.peer, t.slice.count);
  }
}

Lines expected_lines(const Request& q, std::string_view chosen, int rank) {
  Lines lines;
  if (q.collective == Collective::all_to_all && chosen == "bruck")  // everybody's counts first
    add_lines(lines, algorithm::program_of({.collective = Collective::all_gather,
                                            .size = q.size,
                                            .counts = Values(static_cast<size_t>(q.size), q.size)},
                                           "bruck", rank));
  add_lines(lines, algorithm::program_of(q, chosen, rank));
  return lines;
}

void expect_messages_of_program(const Communicator& world, const Request& q, std::string_view algorithm) {
  SCOPED_TRACE(describe(q, algorithm));
  const auto recorder = std::make_shared<Recorder>(world.backend());
  const Communicator chosen = Communicator(recorder).with_algorithm(q.collective, algorithm, q.chunk);
  Part part = part_of(q, world.rank());
  call(chosen, q, part);
  ASSERT_EQ(recorder->take_lines(), expected_lines(q, algorithm, world.rank()));
  ASSERT_EQ(part.output, part.expected);
}

TEST(Messages, are_those_of_the_programs_on_1_to_17_thread_workers) {
  for (int size = 1; size <= 17; size += kIsSanitized ? 4 : 1)
    launch_threads(size, [&](const Communicator& world) {
      for_each_algorithm([&](Collective collective, std::string_view algorithm) {
        for (const Request& q : some_requests(collective, size, algorithm, {0, size - 1}))
          expect_messages_of_program(world, q, algorithm);
      });
    });
}

TEST(Messages, of_another_collective_than_the_chosen_one_are_the_backends_own_business) {
  launch_threads(3, [](const Communicator& world) {
    const auto recorder = std::make_shared<Recorder>(world.backend());
    float x[] = {1};
    Communicator(recorder).with_algorithm(Collective::all_reduce, "ring").broadcast(buffer(x), 0);
    EXPECT_EQ(recorder->native_broadcasts, 1);
    EXPECT_TRUE(recorder->take_lines().empty());
  });
}

/// Keeps the algorithm of every call that it sees.
class Names final : public Observer {
 public:
  void begin(const Call& call) override { names.emplace_back(call.algorithm); }
  std::vector<std::string> names;
};

TEST(WithAlgorithm, tells_observers_which_algorithm_runs) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const auto names = std::make_shared<Names>();
    const Communicator observed = world.observed_by(names);
    std::vector<float> x(40), few(1);
    observed.all_reduce(buffer(x));
    observed.with_algorithm(Collective::all_reduce, "ring").all_reduce(buffer(x));
    observed.with_algorithm(Collective::all_reduce, "auto").all_reduce(buffer(few));
    observed.with_algorithm(Collective::all_reduce, "ring").barrier();
    EXPECT_EQ(names->names, (std::vector<std::string>{"", "ring", world.size() == 1 ? "naive" : "butterfly", ""}));
  });
}

TEST(WithAlgorithm, may_be_said_of_several_collectives_and_the_last_word_holds) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const auto names = std::make_shared<Names>();
    const Communicator group = world.observed_by(names)
                                   .with_algorithm(Collective::broadcast, "ring", 2)
                                   .with_algorithm(Collective::all_reduce, "ring")
                                   .with_algorithm(Collective::all_reduce, "rabenseifner");
    std::vector<int64_t> x(5, world.rank());
    group.broadcast(buffer(x), world.size() - 1);
    EXPECT_EQ(x, std::vector<int64_t>(5, world.size() - 1));
    group.all_reduce(buffer(x));
    EXPECT_EQ(x, std::vector<int64_t>(5, int64_t{world.size()} * (world.size() - 1)));
    EXPECT_EQ(names->names, (std::vector<std::string>{"ring", "rabenseifner"}));
  });
}

TEST(WithAlgorithm, holds_for_groups_and_for_threads_made_from_it) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    const auto names = std::make_shared<Names>();
    const Communicator group =
        *world.observed_by(names).with_algorithm(Collective::all_reduce, "naive").split(world.rank() % 2, 0);
    std::vector<int64_t> x{1};
    group.all_reduce(buffer(x));
    group.for_thread().all_reduce(buffer(x));
    EXPECT_EQ(x[0], int64_t{group.size()} * group.size());
    EXPECT_EQ(names->names, (std::vector<std::string>{"", "naive", "naive"}));  // the split gathers
  });
}

TEST(Order, is_that_of_ranks_with_one_rounding_in_a_naive_reduce_and_rounds_at_each_hop_of_a_tree) {
  launch_threads(4, [](const Communicator& world) {
    const auto sum_by = [&](std::string_view algorithm) {
      std::vector<BFloat16> x{to_bfloat16(world.rank() == 0 ? 1.0f : 0.00390625f)}, sum(1);  // 2^-8
      world.with_algorithm(Collective::reduce, algorithm).reduce(const_buffer(x), buffer(sum), Reduction::sum, 0);
      return to_float(sum[0]);
    };
    // bfloat16 has 1 + k 2^-7; halves go to even k. The tree adds 1 + 2^-8 = 1, then 2^-7.
    const float naive = sum_by("naive"), tree = sum_by("tree");
    if (world.rank() == 0) {
      EXPECT_EQ(naive, 1.015625f);  // 1 + 3 2^-8, rounded
      EXPECT_EQ(tree, 1.0078125f);
    }
  });
}

TEST(Order, of_operands_is_one_on_all_ranks_of_a_butterfly_which_get_the_same_bits) {
  launch_threads(7, [](const Communicator& world) {
    const Communicator group = world.with_algorithm(Collective::all_reduce, "butterfly");
    for (const Reduction reduction : {Reduction::sum, Reduction::min, Reduction::max}) {
      std::vector<float> x(64);
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = i % 3 == 0 ? (world.rank() % 2 ? 0.0f : -0.0f) : 1.0f / static_cast<float>(world.rank() * 64 + i + 1);
      group.all_reduce(buffer(x), reduction);
      std::vector<float> first = x;
      world.broadcast(buffer(first), 0);
      EXPECT_EQ(std::memcmp(x.data(), first.data(), x.size() * sizeof(float)), 0);
    }
  });
}

TEST(Order, of_sums_is_the_same_in_every_run) {
  for_each_algorithm([](Collective collective, std::string_view algorithm) {
    if (collective != Collective::all_reduce) return;
    std::vector<float> first;
    for (int run = 0; run < 20; ++run)
      launch_threads(5, [&](const Communicator& world) {
        std::vector<float> x(9);
        for (size_t i = 0; i < x.size(); ++i) x[i] = 1.0f / static_cast<float>(world.rank() * 9 + i + 1);
        if (run % 5 == world.rank()) std::this_thread::sleep_for(std::chrono::microseconds(100));
        world.with_algorithm(collective, algorithm).all_reduce(buffer(x));
        if (world.rank() != 0) return;
        if (run == 0) first = x;
        EXPECT_EQ(x, first) << algorithm;
      });
  });
}

TEST(Messages, of_different_algorithms_do_not_match) {
  const std::string message = testing::failure_of<CommunicationError>(4, [](const Communicator& world) {
    std::vector<float> x(8);
    const Communicator group = world.with_algorithm(Collective::all_reduce, world.rank() == 1 ? "butterfly" : "ring");
    group.all_reduce(buffer(x));
  });
  EXPECT_THAT(message, AllOf(HasSubstr("all_reduce #1 (ring, sum, float32 x 8) at perform_test.cpp"),
                             HasSubstr("all_reduce #1 (butterfly, sum, float32 x 8) at perform_test.cpp")));
}

TEST(Messages, of_some_ranks_while_others_call_the_backends_own_are_diagnosed) {
  const std::string message = testing::failure_of<CommunicationError>(4, [](const Communicator& world) {
    std::vector<float> x(8);
    const Communicator group = world.rank() == 1 ? world : world.with_algorithm(Collective::all_reduce, "ring");
    group.all_reduce(buffer(x));
  });
  EXPECT_THAT(message, AllOf(HasSubstr("all_reduce #1 (ring, sum, float32 x 8) at perform_test.cpp"),
                             HasSubstr("all_reduce #1 (sum, float32 x 8) at perform_test.cpp")));
}

TEST(Messages, of_chunks_that_differ_do_not_match) {
  const std::string message = testing::failure_of<CommunicationError>(3, [](const Communicator& world) {
    std::vector<float> x(8);
    world.with_algorithm(Collective::broadcast, "ring", world.rank() == 2 ? 3 : 4).broadcast(buffer(x), 0);
  });
  EXPECT_THAT(message, AllOf(HasSubstr("float32 x 4"), HasSubstr("float32 x 3"), HasSubstr("broadcast #1 (ring")));
}

TEST(WithAlgorithm, works_on_a_backend_that_has_nothing_but_exchange) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const Communicator steps(std::make_shared<StepsBackend>(world));
    for_each_algorithm([&](Collective collective, std::string_view algorithm) {
      for (const Request& q : some_requests(collective, world.size(), algorithm, all_ranks(world.size()))) {
        Part part = part_of(q, world.rank());
        call(steps.with_algorithm(collective, algorithm, q.chunk), q, part);
        ASSERT_EQ(part.output, part.expected) << describe(q, algorithm);
      }
    });
  });
}

TEST(WithAlgorithm, auto_gives_right_results_at_every_size) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const int64_t count : {0, 1, 1000, 3000, 20000, 600000}) {
      const Communicator broadcasts = world.with_algorithm(Collective::broadcast, "auto");
      const Communicator reduces = world.with_algorithm(Collective::all_reduce, "auto");
      Values x = values_of(world.rank(), count);
      broadcasts.broadcast(buffer(x), world.size() - 1);
      ASSERT_EQ(x, values_of(world.size() - 1, count));
      x = values_of(world.rank(), count);
      reduces.all_reduce(buffer(x));
      ASSERT_EQ(x, sums_of(world.size(), count));
    }
  });
}

TEST(Order, of_threads_own_reductions_is_taken_by_deterministic_whatever_was_chosen_before) {
  launch_threads(2, [](const Communicator& world) {
    const auto names = std::make_shared<Names>();
    const Communicator chosen = world.observed_by(names).with_algorithm(Collective::all_reduce, "ring");
    std::vector<float> x(3);
    chosen.with_algorithm(Collective::broadcast, "tree").deterministic().all_reduce(buffer(x));
    chosen.deterministic().with_algorithm(Collective::all_reduce, "naive").all_reduce(buffer(x));
    EXPECT_EQ(names->names, (std::vector<std::string>{"", "naive"}));
  });
}

TEST(WithAlgorithm, holds_for_asynchronous_operations) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const auto names = std::make_shared<Names>();
    const AsyncCommunicator group(world.observed_by(names).with_algorithm(Collective::all_reduce, "ring"));
    std::vector<int64_t> x(5, 1);
    group.all_reduce(buffer(x)).wait();
    EXPECT_EQ(x, std::vector<int64_t>(5, world.size()));
    EXPECT_EQ(names->names, std::vector<std::string>{"ring"});
  });
}

TEST(WithAlgorithm, refuses_names_and_chunks_that_are_none) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const auto refusal = [&](std::string_view algorithm, int64_t chunk) {
      return testing::thrown_by<InvalidArgument>(
          [&] { world.with_algorithm(Collective::broadcast, algorithm, chunk); });
    };
    EXPECT_THAT(
        refusal("butterfly", 0),
        AllOf(HasSubstr("with_algorithm on rank "), HasSubstr("perform_test.cpp"),
              HasSubstr("expected one of the algorithms of broadcast (auto, naive, tree, ring), got 'butterfly'")));
    EXPECT_THAT(refusal("ring", -1), HasSubstr("expected a chunk that is not negative, got -1"));
  });
}

}  // namespace
}  // namespace adjoin
