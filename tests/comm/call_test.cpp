#include "adjoin/comm/contract/call_record.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace adjoin {
namespace {

TEST(CallRecord, names_what_there_is_of_a_call) {
  const std::vector<int64_t> counts{3, 0}, received{1, 2};
  const auto elements = [](int64_t count, ElementType type = ElementType::float32) {
    return Buffer{nullptr, count, type};
  };
  const auto text_of = [](Call call, uint32_t line) {
    call.where = Where("folder/a.cpp", line);
    return describe(call);
  };
  EXPECT_EQ(text_of({.collective = Collective::barrier, .name = "barrier", .sequence = 1}, 1), "barrier #1 at a.cpp:1");
  EXPECT_EQ(text_of({.name = "subset", .sequence = 1}, 1), "subset #1 at a.cpp:1");
  const Message received_one[] = {receive_of(elements(5), 3, 7)};
  EXPECT_EQ(text_of({.name = "recv", .messages = received_one, .sequence = 2}, 2),
            "recv #2 (from rank 3, tag 7, float32 x 5) at a.cpp:2");
  const Message both[] = {receive_of(elements(5), 3, 7), send_of(elements(4), 2, 7), send_of(elements(2), 1, 7)};
  EXPECT_EQ(text_of({.name = "exchange", .messages = both, .sequence = 2}, 2), "exchange #2 (float32 x 6) at a.cpp:2");
  EXPECT_EQ(text_of({.collective = Collective::reduce,
                     .name = "reduce",
                     .in = elements(4, ElementType::int64),
                     .reduction = Reduction::max,
                     .root = 1,
                     .algorithm = "tree",
                     .sequence = 14},
                    3),
            "reduce #14 (tree, root 1, max, int64 x 4) at a.cpp:3");
  EXPECT_EQ(text_of({.collective = Collective::gather,
                     .name = "gather",
                     .in = elements(3),
                     .counts = counts,
                     .root = 0,
                     .sequence = 3},
                    4),
            "gather #3 (root 0, float32 x {3, 0}) at a.cpp:4");
  EXPECT_EQ(text_of({.collective = Collective::all_to_all,
                     .name = "all_to_all",
                     .counts = counts,
                     .receive_counts = received,
                     .sequence = 4},
                    5),
            "all_to_all #4 (float32, sends {3, 0}, receives {1, 2}) at a.cpp:5");
}

TEST(CallRecord, has_all_messages_and_ranks_of_the_world_where_asked) {
  const GroupIdentity group{.id = 9, .world_ranks = {4, 6, 8}};
  const Message both[] = {send_of(Buffer{nullptr, 4, ElementType::float32}, 2, 7),
                          receive_of(Buffer{nullptr, 5}, 1, 7)};
  const auto text_of = [&](std::string_view name) {
    CallRecord record;
    record.note_in_world({.name = name, .messages = both, .where = Where("a.cpp", 1), .sequence = 2, .group = &group});
    return describe(record, " on a group");
  };
  EXPECT_EQ(text_of("sendrecv"), "sendrecv #2 on a group (to rank 8, from rank 6, tag 7, float32 x 4) at a.cpp:1");
  EXPECT_EQ(text_of("exchange"), "exchange #2 on a group (2 messages, float32 x 4) at a.cpp:1");
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
