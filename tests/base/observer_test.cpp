#include "adjoin/base/observer.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace adjoin {
namespace {

TEST(OperationText, names_what_there_is_of_a_call) {
  const std::vector<int64_t> counts{3, 0}, received{1, 2};
  EXPECT_EQ(describe({.name = "barrier", .sequence = 1}, "a.cpp:1"), "barrier #1 at a.cpp:1");
  EXPECT_EQ(describe({.name = "recv", .count = 5, .peer = 3, .tag = 7, .sequence = 2}, "a.cpp:2"),
            "recv #2 (from rank 3, tag 7, float32 x 5) at a.cpp:2");
  EXPECT_EQ(describe({.name = "reduce",
                      .count = 4,
                      .type = ElementType::int64,
                      .root = 1,
                      .reduction = "max",
                      .algorithm = "tree",
                      .sequence = 14},
                     "a.cpp:3"),
            "reduce #14 (tree, root 1, max, int64 x 4) at a.cpp:3");
  EXPECT_EQ(describe({.name = "gather", .count = 3, .root = 0, .counts = counts, .sequence = 3}, "a.cpp:4"),
            "gather #3 (root 0, float32 x {3, 0}) at a.cpp:4");
  EXPECT_EQ(describe({.name = "all_to_all", .counts = counts, .receive_counts = received, .sequence = 4}, "a.cpp:5"),
            "all_to_all #4 (float32, sends {3, 0}, receives {1, 2}) at a.cpp:5");
}

TEST(OperationText, leaves_folders_out_of_places) {
  const Operation operation{.name = "barrier", .sequence = 1, .where = std::source_location::current()};
  EXPECT_EQ(describe(operation).find("barrier #1 at observer_test.cpp:"), 0u) << describe(operation);
}

}  // namespace
}  // namespace adjoin
