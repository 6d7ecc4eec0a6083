#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/cli/output.hpp"
#include "adjoin/partition/halo_plan.hpp"
#include "adjoin/partition/layout.hpp"
#include "adjoin/partition/move_plan.hpp"

namespace adjoin::cli {

/// Windows that read a tensor, and what each part of the tensor fetches for them.
struct Windows {
  std::string text;  // "3 x 3, stride 2 x 2"
  bool is_transposed = false;
  HaloPlan plan;
};

/// What `adjoin layout` shows: the layout of a tensor, and where it is moved.
struct ShownMove {
  Layout from;
  std::optional<Layout> to;  // another grid, or what the windows need
  std::optional<Windows> windows;
};

/// What one rank sends to another.
struct Transfer {
  int from = 0, to = 0;
  int64_t boxes = 0, elements = 0;
};

/// The messages of a move.
struct Traffic {
  std::vector<Transfer> transfers;  // between different ranks, ordered by receiver and sender
  int64_t boxes = 0, elements = 0;  // of all transfers
  int64_t staying = 0;              // elements that a rank already has
};

Traffic traffic_of(const Layout& from, const Layout& to);

/// "[4, 4, 3] on a grid of 1 x 2 x 2, moved to one of 4 x 1 x 1"
std::string title_of(const ShownMove& placement);

/// "[0:4, 2:3]"; with several ranges "[0:2+4:6]".
std::string ranges_text(const std::vector<std::vector<Range>>& ranges);

Report report_of(const ShownMove& placement, bool as_json);

}  // namespace adjoin::cli
