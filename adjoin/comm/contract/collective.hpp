#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

namespace adjoin {

/// The operations that all ranks of a group call together.
enum class Collective : uint8_t {
  barrier,
  broadcast,
  reduce,
  all_reduce,
  gather,
  scatter,
  all_gather,
  reduce_scatter,
  all_to_all
};

/// The elements that a rank gives or gets: none, as many as every other rank, its own block, or the blocks of all ranks, whose
/// sizes are the call's counts.
enum class Extent : uint8_t { none, whole, own_block, all_blocks };

/// What a collective does with the elements of a group's ranks.
struct CollectiveKind {
  std::string_view name;  ///< used in messages and on the command line
  Extent gives = Extent::none, gets = Extent::none;
  enum class Root : uint8_t { none, gives, gets } root = Root::none;  ///< what the root alone does
  bool reduces = false;
  bool is_in_place = false;  ///< one buffer is both given and got
};

/// In the order of Collective.
inline constexpr CollectiveKind kCollectiveKinds[] = {
    {.name = "barrier"},
    {"broadcast", Extent::whole, Extent::whole, CollectiveKind::Root::gives, /*reduces=*/false, /*is_in_place=*/true},
    {"reduce", Extent::whole, Extent::whole, CollectiveKind::Root::gets, /*reduces=*/true},
    {"all_reduce", Extent::whole, Extent::whole, CollectiveKind::Root::none, /*reduces=*/true, /*is_in_place=*/true},
    {"gather", Extent::own_block, Extent::all_blocks, CollectiveKind::Root::gets},
    {"scatter", Extent::all_blocks, Extent::own_block, CollectiveKind::Root::gives},
    {"all_gather", Extent::own_block, Extent::all_blocks},
    {"reduce_scatter", Extent::all_blocks, Extent::own_block, CollectiveKind::Root::none, /*reduces=*/true},
    {"all_to_all", Extent::all_blocks, Extent::all_blocks},
};
inline constexpr int kCollectives = static_cast<int>(std::size(kCollectiveKinds));

constexpr const CollectiveKind& kind_of(Collective collective) {
  return kCollectiveKinds[static_cast<size_t>(collective)];
}

constexpr std::string_view name(Collective collective) {
  return kind_of(collective).name;
}

inline std::vector<std::string_view> collective_names() {
  std::vector<std::string_view> names;
  for (const CollectiveKind& kind : kCollectiveKinds) names.push_back(kind.name);
  return names;
}

/// The collective of that name, if there is one.
constexpr std::optional<Collective> collective_named(std::string_view text) {
  for (int i = 0; i < kCollectives; ++i)
    if (name(static_cast<Collective>(i)) == text) return static_cast<Collective>(i);
  return std::nullopt;
}

constexpr bool has_root(Collective c) {
  return kind_of(c).root != CollectiveKind::Root::none;
}

constexpr bool has_reduction(Collective c) {
  return kind_of(c).reduces;
}

/// Whether its calls have counts.
constexpr bool has_blocks(Collective c) {
  return kind_of(c).gives >= Extent::own_block;
}

}  // namespace adjoin
