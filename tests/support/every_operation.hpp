#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::testing {

/// Makes every operation on `each` elements with a group whose calls are waited for later (Begin, AsyncCommunicator), and compares
/// what this rank gets. `meanwhile` runs before the first wait.
template <class Group>
void expect_every_operation(const Communicator& world, const Group& group, size_t each,
                            const std::function<void()>& meanwhile) {
  const int n = world.size(), me = world.rank(), next = (me + 1) % n, previous = (me + n - 1) % n;
  const auto all = static_cast<size_t>(n);
  const int64_t sum = n * (n - 1) / 2;
  std::vector<int64_t> mine(each, me), got(each), got_too(each), total(each, me), reduced(each), told(each, me);
  std::vector<int64_t> gathered(each * all), everything(each * all), scattered(each), spread(each * all, me),
      block(each), exchanged(each * all);
  std::vector<decltype(group.barrier())> calls;
  {
    const std::vector<int64_t> counts(all, static_cast<int64_t>(each));  // which the calls do not need later
    const Message messages[] = {{Message::Kind::send, next, buffer(mine), 1},
                                {Message::Kind::receive, previous, buffer(got_too), 1}};
    calls.push_back(group.sendrecv(const_buffer(mine), next, buffer(got), previous));
    calls.push_back(group.exchange(messages));
    calls.push_back(group.barrier());
    calls.push_back(group.broadcast(buffer(told), n - 1));
    calls.push_back(group.reduce(const_buffer(mine), buffer(reduced), Reduction::sum, 0));
    calls.push_back(group.all_reduce(buffer(total)));
    calls.push_back(group.gather(const_buffer(mine), buffer(gathered), counts, 0));
    calls.push_back(group.scatter(const_buffer(spread), buffer(scattered), counts, n - 1));
    calls.push_back(group.all_gather(const_buffer(mine), buffer(everything), counts));
    calls.push_back(group.reduce_scatter(const_buffer(spread), buffer(block), counts));
    calls.push_back(group.all_to_all(const_buffer(spread), counts, buffer(exchanged), counts));
  }
  meanwhile();
  const auto pending = [](const auto& call) -> auto& {
    if constexpr (requires { call->wait(); })
      return *call;
    else
      return call;
  };
  for (const auto& call : calls) pending(call).wait();
  for (const auto& call : calls) EXPECT_TRUE(pending(call).done());
  pending(calls.front()).wait();  // again

  std::vector<int64_t> in_order;
  for (int r = 0; r < n; ++r) in_order.insert(in_order.end(), each, r);
  EXPECT_EQ(got, std::vector<int64_t>(each, previous));
  EXPECT_EQ(got_too, got);
  EXPECT_EQ(told, std::vector<int64_t>(each, n - 1));
  EXPECT_EQ(total, std::vector<int64_t>(each, sum));
  EXPECT_EQ(scattered, std::vector<int64_t>(each, n - 1));
  EXPECT_EQ(block, std::vector<int64_t>(each, sum));
  EXPECT_EQ(everything, in_order);
  EXPECT_EQ(exchanged, in_order);
  EXPECT_EQ(reduced, me == 0 ? total : std::vector<int64_t>(each));
  EXPECT_EQ(gathered, me == 0 ? in_order : std::vector<int64_t>(each * all));
}

}  // namespace adjoin::testing
