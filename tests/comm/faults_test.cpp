// Arguments and values that once gave wrong results or wrote behind buffers.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/communicator.hpp"
#include "adjoin/comm/launch.hpp"
#include "tests/support/elements.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using testing::failure_of;
using testing::for_each_world;
using Counts = std::vector<int64_t>;

TEST(Mismatch, of_the_counts_of_an_all_to_all_by_bruck_is_told_before_anything_is_written) {
  for (const bool checked : {false, true}) {
    const std::string message = failure_of<CommunicationError>(
        2,
        [](const Communicator& world) {
          const bool sends_more = world.rank() == 0;
          const Counts sent{4, sends_more ? 8 : 4}, received{4, 4};
          std::vector<float> in(static_cast<size_t>(sent[0] + sent[1]), 1.0f), out(8), behind(8, 7.0f);
          world.with_algorithm(Collective::all_to_all, "bruck").all_to_all(buffer(in), sent, buffer(out), received);
        },
        {.checked = checked});
    EXPECT_NE(message.find("expected 4 elements from rank 0, which sends 8"), std::string::npos) << message;
  }
}

TEST(Arguments, that_overlap_where_that_is_not_supported_are_refused) {
  for_each_world({2, 3}, [](const Communicator& world) {
    const auto n = static_cast<size_t>(world.size());
    const auto rank = static_cast<int64_t>(world.rank());
    const Counts ones(n, 2);
    std::vector<float> x(2 * n), y(2 * n);
    const Buffer all = buffer(x), own = all.slice(2 * rank, 2), other = all.slice(2 * ((rank + 1) % world.size()), 2);
    EXPECT_THROW(world.all_to_all(all, ones, all, ones), InvalidArgument);
    EXPECT_THROW(world.all_gather(other, all, ones), InvalidArgument);
    EXPECT_THROW(world.reduce_scatter(all, other, ones), InvalidArgument);
    EXPECT_THROW(world.sendrecv(all, world.rank(), all, world.rank()), InvalidArgument);
    if (world.rank() == 0) {
      EXPECT_THROW(world.reduce(all.slice(0, 2), all.slice(1, 2), Reduction::sum, 0), InvalidArgument);
      EXPECT_THROW(world.gather(other, all, ones, 0), InvalidArgument);
      EXPECT_THROW(world.scatter(all, other, ones, 0), InvalidArgument);
    }
    EXPECT_NO_THROW(world.all_gather(own, all, ones));
    EXPECT_NO_THROW(world.reduce_scatter(all, own, ones));
  });
}

TEST(Arguments, of_an_exchange_that_overlap_are_refused_and_boxes_that_interleave_are_not) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const int next = (world.rank() + 1) % world.size(), previous = (world.rank() + world.size() - 1) % world.size();
    std::vector<float> x(60);  // ten rows of six
    const Counts sizes{10, 2}, strides{6, 1};
    const auto at = [&](Message::Kind kind, int64_t column, int tag = 0) {
      const bool sends = kind == Message::Kind::send;
      return Message{kind, sends ? next : previous, {x.data() + column, 20, ElementType::float32}, tag, sizes, strides};
    };
    const auto exchange = [&](std::vector<Message> messages) { world.exchange(messages); };
    const auto send = Message::Kind::send, receive = Message::Kind::receive;
    EXPECT_NO_THROW(exchange({at(send, 0), at(receive, 2), at(send, 0, 1), at(receive, 4, 1)}));
    EXPECT_THROW(exchange({at(send, 1), at(receive, 2)}), InvalidArgument);
    EXPECT_THROW(exchange({at(send, 0), at(receive, 2), at(send, 0, 1), at(receive, 3, 1)}), InvalidArgument);
    EXPECT_THROW(exchange({at(send, 0), receive_of(buffer(x).slice(13, 1), previous, 0)}), InvalidArgument);
    EXPECT_THROW(exchange({send_of(buffer(x).slice(0, 5), next, 0), receive_of(buffer(x).slice(4, 5), previous, 0)}),
                 InvalidArgument);
    const Message within_gaps = receive_of(buffer(x).slice(2, 4), previous, 0);  // of a row, between two of the box's
    Message to_it = at(send, 0);
    to_it.buffer.count = 4;
    const Counts four{2, 2};
    to_it.sizes = four;
    EXPECT_NO_THROW(exchange({to_it, within_gaps}));
  });
}

/// Elements whose reductions are exact in any order: of floats small numbers, infinities and NaN; of integers any bits, so
/// that sums and products go beyond their range.
template <class T>
std::vector<char> exact_elements(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<char> bytes(count * sizeof(T));
  const double floats[] = {-2, -1, 0, 1, 2, 3, HUGE_VAL, -HUGE_VAL, NAN};
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = uint64_t{random()} << 32 | random();
    if constexpr (std::is_integral_v<T>)
      testing::put<T>(bytes, static_cast<int64_t>(i), std::is_same_v<T, bool> ? bits % 2 : static_cast<T>(bits));
    else
      testing::put<T>(bytes, static_cast<int64_t>(i), testing::element_from<T>(floats[bits % std::size(floats)]));
  }
  return bytes;
}

template <class T>
void expect_our_reduction(const Communicator& world, Reduction reduction, int64_t count) {
  std::vector<std::vector<char>> parts;
  std::vector<const void*> inputs;
  for (int rank = 0; rank < world.size(); ++rank)
    parts.push_back(exact_elements<T>(static_cast<size_t>(count), static_cast<uint32_t>(count * 16 + rank)));
  for (const auto& part : parts) inputs.push_back(part.data());
  const auto expected = testing::reduce_scalar<T>(inputs, count, reduction);
  std::vector<char> got = parts[static_cast<size_t>(world.rank())];
  world.all_reduce({got.data(), count, element_type_of<T>}, reduction);
  ASSERT_TRUE(testing::same_bits<T>(got.data(), expected.data(), count))
      << name(reduction) << " of " << count << " " << name(element_type_of<T>);
}

TEST(AllReduce, is_that_of_scalar_code_on_every_backend_for_all_types_and_lengths) {
  for_each_world({2, 3}, [](const Communicator& world) {
    testing::for_each_type([&](auto zero) {
      using T = decltype(zero);
      for (int r = 0; r < kReductions; ++r)
        for (int64_t count = 1; count <= 70;
             count += testing::kIsSanitized || world.size() != 2 ? 23 : 1)  // two meet at a time on any number
          if (const auto reduction = static_cast<Reduction>(r); is_defined(reduction, element_type_of<T>))
            expect_our_reduction<T>(world, reduction, count);
    });
  });
}

}  // namespace
}  // namespace adjoin
