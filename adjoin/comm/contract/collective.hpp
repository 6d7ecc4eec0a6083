#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace adjoin {

/// The operations that all ranks of a group call together.
enum class Collective : uint8_t {
  barrier,
  broadcast,
  reduce,
  all_reduce,
  gather,  // from here on collectives have counts
  scatter,
  all_gather,
  reduce_scatter,
  all_to_all
};

inline constexpr int kCollectives = 9;

/// The name used in messages and on the command line: "all_reduce".
constexpr std::string_view name(Collective collective) {
  constexpr std::string_view names[kCollectives] = {"barrier", "broadcast",  "reduce",         "all_reduce", "gather",
                                                    "scatter", "all_gather", "reduce_scatter", "all_to_all"};
  return names[static_cast<int>(collective)];
}

/// The collective of that name, if there is one.
constexpr std::optional<Collective> collective_named(std::string_view text) {
  for (int i = 0; i < kCollectives; ++i)
    if (name(static_cast<Collective>(i)) == text) return static_cast<Collective>(i);
  return std::nullopt;
}

constexpr bool has_root(Collective c) {
  return c == Collective::broadcast || c == Collective::reduce || c == Collective::gather || c == Collective::scatter;
}

constexpr bool has_reduction(Collective c) {
  return c == Collective::reduce || c == Collective::all_reduce || c == Collective::reduce_scatter;
}

}  // namespace adjoin
