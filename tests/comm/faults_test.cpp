// Arguments and values that once gave wrong results or wrote behind buffers.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/communicator.hpp"
#include "adjoin/comm/launch.hpp"
#include "tests/support/failures.hpp"
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

/// Value i of rank r, so that sums and products of small integers go beyond their range.
template <class T>
T large(int64_t i, int rank) {
  return static_cast<T>(200 + 31 * rank + 7 * i);
}

template <class T>
void expect_our_reductions(const Communicator& world) {
  for (int r = 0; r < kReductions; ++r) {
    const auto reduction = static_cast<Reduction>(r);
    if (!is_defined(reduction, element_type_of<T>)) continue;
    for (size_t n = 1; n <= 70; ++n) {
      std::vector<std::vector<T>> parts(static_cast<size_t>(world.size()), std::vector<T>(n));
      std::vector<const void*> inputs;
      for (int rank = 0; rank < world.size(); ++rank) {
        auto& part = parts[static_cast<size_t>(rank)];
        for (size_t i = 0; i < n; ++i) part[i] = large<T>(static_cast<int64_t>(i), rank);
        inputs.push_back(part.data());
      }
      std::vector<T> expected(n), got = parts[static_cast<size_t>(world.rank())];
      reduce_all_into(buffer(expected), inputs, reduction);
      world.all_reduce(buffer(got), reduction);
      ASSERT_EQ(got, expected) << name(reduction) << " of " << n << " " << name(element_type_of<T>);
    }
  }
}

TEST(AllReduce, of_integers_is_the_same_on_every_backend_at_every_length) {
  for_each_world({2, 3}, [](const Communicator& world) {
    expect_our_reductions<uint8_t>(world);
    expect_our_reductions<int32_t>(world);
    expect_our_reductions<int64_t>(world);
  });
}

}  // namespace
}  // namespace adjoin
