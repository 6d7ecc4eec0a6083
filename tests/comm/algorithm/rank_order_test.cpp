// Deterministic reductions in steps and under MPI, against reduce_all_into of what all ranks give.

#include "adjoin/comm/algorithm/perform.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/comm/launch.hpp"
#include "tests/support/elements.hpp"
#include "tests/support/steps_backend.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;

/// What one rank gives: random, so that another order of summation would round otherwise.
template <class T>
std::vector<char> given_bytes(int rank, int64_t count) {
  std::mt19937 random(static_cast<unsigned>(rank + 1000 * count));
  return elements_of<T>(count, random);
}

template <class T>
std::vector<char> in_rank_order(int ranks, int64_t count, Reduction reduction) {
  std::vector<std::vector<char>> inputs;
  std::vector<const void*> pointers;
  for (int r = 0; r < ranks; ++r) inputs.push_back(given_bytes<T>(r, count));
  for (const auto& input : inputs) pointers.push_back(input.data());
  std::vector<char> out(inputs[0].size());
  reduce_all_into({out.data(), count, element_type_of<T>}, pointers, reduction);
  return out;
}

template <class T>
Buffer whole_buffer(std::vector<char>& bytes) {
  return {bytes.data(), static_cast<int64_t>(bytes.size() / sizeof(T)), element_type_of<T>};
}

template <class T>
void expect_rank_order(const Communicator& world, Reduction reduction, int64_t count) {
  const auto expected = in_rank_order<T>(world.size(), count, reduction);
  auto all = given_bytes<T>(world.rank(), count);
  world.all_reduce(whole_buffer<T>(all), reduction);
  EXPECT_TRUE(same_bits<T>(all.data(), expected.data(), count)) << "all_reduce";

  auto in = given_bytes<T>(world.rank(), count);
  std::vector<char> out(world.rank() == 0 ? in.size() : 0);
  world.reduce(whole_buffer<T>(in), whole_buffer<T>(out), reduction, 0);
  if (world.rank() == 0) {
    EXPECT_TRUE(same_bits<T>(out.data(), expected.data(), count)) << "reduce";
  }

  std::vector<int64_t> counts(static_cast<size_t>(world.size()), 0);  // uneven: the last rank has all but a few
  if (world.size() > 1) counts[0] = std::min<int64_t>(3, count);
  counts.back() = count - (world.size() > 1 ? counts[0] : 0);
  const int64_t own = counts[static_cast<size_t>(world.rank())], begin = world.rank() == 0 ? 0 : counts[0];
  std::vector<char> block(static_cast<size_t>(own) * sizeof(T));
  world.reduce_scatter(whole_buffer<T>(in), whole_buffer<T>(block), counts, reduction);
  EXPECT_TRUE(same_bits<T>(block.data(), expected.data() + begin * static_cast<int64_t>(sizeof(T)), own))
      << "reduce_scatter";
}

void expect_all_in_rank_order(const Communicator& world) {
  for_each_type([&](auto zero) {
    using T = decltype(zero);
    for (int r = 0; r < kReductions; ++r)
      for (const int64_t count : {0, 1, 5, 1003}) {
        const auto reduction = static_cast<Reduction>(r);
        if (count < 1003 && reduction != Reduction::sum) continue;
        if (!is_defined(reduction, element_type_of<T>)) continue;
        SCOPED_TRACE(std::string(name(element_type_of<T>)) + " " + std::string(name(reduction)));
        expect_rank_order<T>(world, reduction, count);
      }
  });
}

TEST(RankOrder, is_kept_in_steps_when_deterministic) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    expect_all_in_rank_order(Communicator(std::make_shared<StepsBackend>(world)).deterministic());
  });
}

TEST(RankOrder, is_kept_by_threads_always_and_by_mpi_and_its_subsets_when_deterministic) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const Communicator group = started_by_mpi() ? world.deterministic() : world;
    expect_all_in_rank_order(group);
    expect_all_in_rank_order(*group.split(group.rank() % 2, 0));
  });
}

}  // namespace
}  // namespace adjoin
