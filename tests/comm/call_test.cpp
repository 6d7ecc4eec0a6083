#include "adjoin/comm/contract/call.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace adjoin {
namespace {

TEST(CallText, names_what_there_is_of_a_call) {
  const std::vector<int64_t> counts{3, 0}, received{1, 2};
  const auto elements = [](int64_t count, ElementType type = ElementType::float32) {
    return Buffer{nullptr, count, type};
  };
  EXPECT_EQ(describe({.collective = Collective::barrier, .name = "barrier", .sequence = 1}, "a.cpp:1"),
            "barrier #1 at a.cpp:1");
  EXPECT_EQ(describe({.name = "subset", .sequence = 1}, "a.cpp:1"), "subset #1 at a.cpp:1");
  const Message received_one[] = {receive_of(elements(5), 3, 7)};
  EXPECT_EQ(describe({.name = "recv", .messages = received_one, .sequence = 2}, "a.cpp:2"),
            "recv #2 (from rank 3, tag 7, float32 x 5) at a.cpp:2");
  const Message both[] = {receive_of(elements(5), 3, 7), send_of(elements(4), 2, 7), send_of(elements(2), 1, 7)};
  EXPECT_EQ(describe({.name = "exchange", .messages = both, .sequence = 2}, "a.cpp:2"),
            "exchange #2 (float32 x 6) at a.cpp:2");
  EXPECT_EQ(describe({.collective = Collective::reduce,
                      .name = "reduce",
                      .in = elements(4, ElementType::int64),
                      .reduction = Reduction::max,
                      .root = 1,
                      .algorithm = "tree",
                      .sequence = 14},
                     "a.cpp:3"),
            "reduce #14 (tree, root 1, max, int64 x 4) at a.cpp:3");
  EXPECT_EQ(describe({.collective = Collective::gather,
                      .name = "gather",
                      .in = elements(3),
                      .counts = counts,
                      .root = 0,
                      .sequence = 3},
                     "a.cpp:4"),
            "gather #3 (root 0, float32 x {3, 0}) at a.cpp:4");
  EXPECT_EQ(describe({.collective = Collective::all_to_all,
                      .name = "all_to_all",
                      .counts = counts,
                      .receive_counts = received,
                      .sequence = 4},
                     "a.cpp:5"),
            "all_to_all #4 (float32, sends {3, 0}, receives {1, 2}) at a.cpp:5");
}

TEST(CallText, leaves_folders_out_of_places) {
  const Call call{.name = "subset", .where = std::source_location::current(), .sequence = 1};
  EXPECT_EQ(describe(call).find("subset #1 at call_test.cpp:"), 0u) << describe(call);
}

TEST(Signature, differs_in_all_that_ranks_must_agree_on) {
  const std::vector<int64_t> counts{3, 1}, others{1, 3};
  std::vector<float> x(4);
  const Call call{.collective = Collective::gather, .in = buffer(x), .counts = counts, .root = 0};
  const auto with = [&](auto change) {
    Call changed = call;
    change(changed);
    return signature_of(changed);
  };
  EXPECT_EQ(with([&](Call& c) { c.in = buffer(x).slice(0, 3); }), signature_of(call));  // each has its own count
  EXPECT_NE(with([&](Call& c) { c.counts = others; }), signature_of(call));
  EXPECT_NE(with([](Call& c) { c.collective = Collective::scatter; }), signature_of(call));
  EXPECT_NE(with([](Call& c) { c.in.type = ElementType::int32; }), signature_of(call));
  EXPECT_NE(with([](Call& c) { c.root = 1; }), signature_of(call));
  EXPECT_NE(with([](Call& c) { c.algorithm = "tree"; }), signature_of(call));
  EXPECT_NE(with([](Call& c) { c.reduction = Reduction::max; }), signature_of(call));
}

}  // namespace
}  // namespace adjoin
