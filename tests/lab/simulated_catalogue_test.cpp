// The simulator's times of the catalogue's programs, against the closed formulas.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "adjoin/comm/algorithm/catalogue.hpp"
#include "adjoin/lab/exercise.hpp"
#include "adjoin/lab/simulator.hpp"
#include "tests/support/costs.hpp"
#include "tests/support/every_algorithm.hpp"
#include "tests/support/sanitized.hpp"

namespace adjoin::lab {
namespace {

using adjoin::testing::for_every_algorithm;
using algorithm::Network;
using algorithm::Request;

void expect_equal_to_formula(const Request& request, std::string_view algorithm, const Network& network) {
  SCOPED_TRACE(std::string(name(request.collective)) + " " + std::string(algorithm) + " on " +
               std::to_string(request.size) + " from " + std::to_string(request.root) + ", chunk " +
               std::to_string(request.chunk));
  const Simulation simulation = simulate(request, algorithm, 4, network);
  const double formula = algorithm::seconds_of(request, algorithm, 4, network);
  EXPECT_NEAR(simulation.seconds, formula, 1e-12 * formula);
}

/// An exercise whose blocks are equal, as some formulas want them.
Request request_of(Collective collective, int ranks, int root, int64_t elements, int64_t chunk) {
  const int64_t count =
      collective == Collective::broadcast || collective == Collective::reduce || collective == Collective::all_reduce
          ? elements
          : elements * ranks;
  return lab::request_of(exercise_of(collective, ranks, root, 4 * count, 4 * chunk));
}

TEST(Simulator, gives_the_times_of_the_formulas_on_every_number_of_ranks) {
  for_every_algorithm([](Collective collective, std::string_view algorithm) {
    for (int ranks = 1; ranks <= 33; ranks += testing::kIsSanitized ? 4 : 1)
      for (const int64_t elements : {0, 1, 1000, 1024})
        for (const Network& network : {Network{1e-6, 1e-9}, Network{1, 0}, Network{0, 1}})
          expect_equal_to_formula(request_of(collective, ranks, ranks / 3, elements, 100), algorithm, network);
  });
}

TEST(Simulator, gives_the_times_of_the_formulas_on_hundreds_and_thousands_of_ranks) {
  for_every_algorithm([](Collective collective, std::string_view algorithm) {
    for (const int ranks : {100, 128})
      expect_equal_to_formula(request_of(collective, ranks, 7, 999, 64), algorithm, {1e-6, 1e-9});
  });
  const auto all_reduce_on = [](int ranks) {
    return Request{.collective = Collective::all_reduce, .size = ranks, .count = 100'001};
  };
  expect_equal_to_formula(all_reduce_on(4096), "butterfly", {1e-6, 1e-9});
  expect_equal_to_formula(all_reduce_on(3000), "rabenseifner", {1e-6, 1e-9});
  expect_equal_to_formula(all_reduce_on(1000), "naive", {1e-6, 1e-9});
  expect_equal_to_formula(all_reduce_on(300), "ring", {1e-6, 1e-9});  // 179,400 messages of blocks of two lengths
}

TEST(Simulator, gives_the_times_of_the_formulas_for_blocks_that_differ) {
  const std::vector<int64_t> counts = {5, 0, 17, 3, 9, 9, 1};
  for (const auto& [collective, algorithm] : {std::pair(Collective::gather, "naive"),
                                              {Collective::scatter, "naive"},
                                              {Collective::all_gather, "naive"},
                                              {Collective::all_gather, "ring"},
                                              {Collective::reduce_scatter, "ring"}})
    for (int root = 0; root < 7; ++root)
      expect_equal_to_formula({.collective = collective, .size = 7, .root = root, .counts = counts}, algorithm,
                              {1e-6, 1e-7});
}

TEST(Simulator, sends_as_many_messages_in_as_many_steps_as_the_formulas_say) {
  for_every_algorithm([](Collective collective, std::string_view algorithm) {
    for (int ranks = 1; ranks <= 17; ++ranks) {
      const Request request = request_of(collective, ranks, ranks - 1, 24, 10);
      int64_t last_step = 0, messages = 0;
      const Simulation simulation = simulate(request, algorithm, 4, {1, 0}, [&](const SimulatedMessage& message) {
        last_step = std::max(last_step, message.step);
      });
      for (int r = 0; r < ranks; ++r) messages += testing::cost_of(request, algorithm, r).messages_sent;
      EXPECT_EQ(simulation.messages, messages) << name(collective) << " " << algorithm << " on " << ranks;
      EXPECT_EQ(last_step, steps_of(request, algorithm)) << name(collective) << " " << algorithm << " on " << ranks;
    }
  });
}

}  // namespace
}  // namespace adjoin::lab
