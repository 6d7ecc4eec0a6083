#include "adjoin/base/copying.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

namespace adjoin {
namespace {

TEST(Copying, moves_all_bytes_and_no_others_whatever_the_alignment) {
  std::vector<unsigned char> from(1000);
  std::iota(from.begin(), from.end(), static_cast<unsigned char>(1));
  std::vector<std::function<void(void*, const void*, int64_t)>> copies{copy_bytes, stream_bytes};
  for (const InstructionSet set : kInstructionSets)
    if (is_supported(set))
      copies.emplace_back([set](void* to, const void* from, int64_t bytes) { stream_with(set, to, from, bytes); });
  for (const auto& copy : copies)
    for (const int64_t begin : {0, 1, 7, 63, 64})
      for (const int64_t bytes : {0, 1, 15, 63, 64, 65, 130, 900}) {
        std::vector<unsigned char> to(from.size());
        copy(to.data() + begin, from.data() + 3, bytes);
        for (int64_t i = 0; i < static_cast<int64_t>(to.size()); ++i) {
          const bool copied = i >= begin && i < begin + bytes;
          ASSERT_EQ(to[static_cast<size_t>(i)], copied ? from[static_cast<size_t>(i - begin + 3)] : 0);
        }
      }
}

TEST(Copying, leaves_a_place_that_is_its_own_source) {
  std::vector<int> x{1, 2, 3};
  for (const Copy copy : {copy_bytes, stream_bytes}) copy(x.data(), x.data(), 12);
  EXPECT_EQ(x, (std::vector<int>{1, 2, 3}));
}

TEST(Copying, goes_past_the_caches_where_they_cannot_hold_it) {
  EXPECT_EQ(copy_for(1024), copy_bytes);
  EXPECT_EQ(copy_for(int64_t{1} << 40), stream_bytes);
}

}  // namespace
}  // namespace adjoin
