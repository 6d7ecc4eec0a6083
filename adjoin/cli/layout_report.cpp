#include "adjoin/cli/layout_report.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "adjoin/base/text.hpp"
#include "adjoin/cli/wrap.hpp"

namespace adjoin::cli {
namespace {

constexpr size_t kMostPairsListed = 200;  // transfers
constexpr int64_t kBytes = 4;             // of a float32

using Json = nlohmann::ordered_json;
using Row = std::vector<std::string>;

void print_table(const std::vector<Row>& rows, std::string_view sides) {
  std::fputs(table_text(rows, sides, kPage).c_str(), stdout);
}

std::string sizes_text(const GridShape& grid) {
  std::vector<int> sizes;
  for (const GridShape::Axis& axis : grid.axes()) sizes.push_back(axis.size);
  return joined(sizes, " x ");
}

int64_t elements_of(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return elements;
}

std::string heading_of(const Layout& layout) {
  const int ranks = layout.grid().cells();
  std::string text = "a grid of " + sizes_text(layout.grid()) + ", " + counted(ranks, "rank");
  for (const GridShape::Axis& axis : layout.grid().axes())
    if (layout.kind(axis.name) != Kind::split)
      text += ", " + std::string(name(layout.kind(axis.name))) + " along axis " + axis.name;
  return text;
}

void print_holders(const Layout& layout) {
  std::vector<Row> rows{{"rank", "elements", "at", "holds"}};
  for (int cell = 0; cell < layout.grid().cells(); ++cell)
    rows.push_back({std::to_string(layout.grid().rank_of(cell)), std::to_string(elements_of(layout.shape_of(cell))),
                    joined(layout.grid().coordinates(cell), ","), ranges_text(layout.ranges_of(cell))});
  print_table(rows, "rrl");
}

/// "[1|0, 0|0]": the padding on the left and on the right of each dim.
std::string pads_of(const Windows& windows, const std::vector<int>& parts) {
  std::string text;
  for (size_t dim = 0; dim < parts.size(); ++dim) {
    const Pads pads = windows.plan.halos[dim].pads[static_cast<size_t>(parts[dim])];
    text += (dim > 0 ? ", " : "") + std::to_string(pads.left) + "|" + std::to_string(pads.right);
  }
  return "[" + text + "]";
}

void print_windows(const ShownMove& placement) {
  const Windows& windows = *placement.windows;
  std::vector<Row> rows{{"rank", "computes", "needs", windows.is_transposed ? "adds to its outputs" : "adds"}};
  for (int cell = 0; cell < placement.to->grid().cells(); ++cell)
    rows.push_back({std::to_string(cell), ranges_text(windows.plan.outputs.ranges_of(cell)),
                    ranges_text(placement.to->ranges_of(cell)), pads_of(windows, placement.to->parts_of(cell))});
  print_table(rows, "rl");
}

const char* name(MoveKind::Way way) {
  switch (way) {
    case MoveKind::Way::local:
      return "nothing, or a part of what each rank has";
    case MoveKind::Way::all_reduce:
      return "an all_reduce";
    case MoveKind::Way::all_gather:
      return "an all_gather";
    case MoveKind::Way::reduce_scatter:
      return "a reduce_scatter";
    case MoveKind::Way::exchange:
      return "an exchange";
  }
  return "unknown";
}

void print_traffic(const ShownMove& placement) {
  const Traffic traffic = traffic_of(placement.from, *placement.to);
  std::printf("\n%s of %s between ranks\n", counted(traffic.boxes, "box", "boxes").c_str(),
              counted(traffic.elements, "element").c_str());
  std::printf("%s from the rank itself\n", counted(traffic.staying, "element").c_str());
  std::printf("%s of float32, carried out as %s\n", counted(traffic.elements * kBytes, "byte").c_str(),
              name(kind_of_move(placement.from, *placement.to).way));
  if (traffic.transfers.empty()) return;
  std::vector<Row> rows{{"from", "to", "boxes", "elements", "bytes"}};
  for (const Transfer& transfer : traffic.transfers) {
    if (rows.size() > kMostPairsListed) break;
    rows.push_back({std::to_string(transfer.from), std::to_string(transfer.to), std::to_string(transfer.boxes),
                    std::to_string(transfer.elements), std::to_string(transfer.elements * kBytes)});
  }
  std::printf("\n");
  print_table(rows, "r");
  if (traffic.transfers.size() > kMostPairsListed)
    std::printf("… and between %zu more pairs of ranks; --json lists all\n",
                traffic.transfers.size() - kMostPairsListed);
}

Json json_of(const std::vector<std::vector<Range>>& ranges) {
  Json dims = Json::array();
  for (const auto& dim : ranges) {
    dims.push_back(Json::array());
    for (const Range& range : dim) dims.back().push_back({range.begin, range.end});
  }
  return dims;
}

Json json_of(const Layout& layout) {
  Json json = {{"layout", Json::parse(layout.to_json())}, {"ranks", Json::array()}};
  for (int cell = 0; cell < layout.grid().cells(); ++cell)
    json["ranks"].push_back({{"rank", layout.grid().rank_of(cell)},
                             {"at", layout.grid().coordinates(cell)},
                             {"shape", layout.shape_of(cell)},
                             {"ranges", json_of(layout.ranges_of(cell))}});
  return json;
}

Json json_of(const Windows& windows) {
  Json json = {{"outputs", json_of(windows.plan.outputs)}, {"dims", Json::array()}};
  for (const Halo& halo : windows.plan.halos) {
    Json pads = Json::array(), order = Json::array();
    for (const Pads& pad : halo.pads) pads.push_back({pad.left, pad.right});
    for (const std::vector<Places>& part : halo.order) {
      order.push_back(Json::array());
      for (const Places& places : part)
        order.back().push_back({{"begin", places.begin}, {"step", places.step}, {"count", places.count}});
    }
    json["dims"].push_back({{"pads", std::move(pads)}, {"order", std::move(order)}});
  }
  return json;
}

Json json_of(const Traffic& traffic) {
  Json json = {{"boxes", traffic.boxes},
               {"elements", traffic.elements},
               {"bytes", traffic.elements * kBytes},
               {"staying", traffic.staying},
               {"transfers", Json::array()}};
  for (const Transfer& transfer : traffic.transfers)
    json["transfers"].push_back({{"from", transfer.from},
                                 {"to", transfer.to},
                                 {"boxes", transfer.boxes},
                                 {"elements", transfer.elements},
                                 {"bytes", transfer.elements * kBytes}});
  return json;
}

}  // namespace

Traffic traffic_of(const Layout& from, const Layout& to) {
  Traffic traffic;
  for (const int rank : to.grid().ranks()) {
    std::map<int, Transfer> received;
    for (const Piece& piece : plan_move(from, to, rank).receives) {
      const int64_t elements = elements_of(piece.sizes);
      if (piece.peer == rank) {
        traffic.staying += elements;
        continue;
      }
      Transfer& transfer = received[piece.peer];
      transfer.from = piece.peer, transfer.to = rank;
      ++transfer.boxes, transfer.elements += elements;
      ++traffic.boxes, traffic.elements += elements;
    }
    for (const auto& [peer, transfer] : received) traffic.transfers.push_back(transfer);
  }
  return traffic;
}

std::string title_of(const ShownMove& placement) {
  std::string title = shape_text(placement.from.shape()) + " on a grid of " + sizes_text(placement.from.grid());
  if (placement.windows) return title + ", windows of " + placement.windows->text;
  return title + (placement.to ? ", moved to one of " + sizes_text(placement.to->grid()) : "");
}

std::string ranges_text(const std::vector<std::vector<Range>>& ranges) {
  std::vector<std::string> dims;
  for (const auto& dim : ranges) {
    std::vector<std::string> pieces;
    for (const Range& range : dim)
      if (range.size() > 0) pieces.push_back(std::to_string(range.begin) + ":" + std::to_string(range.end));
    dims.push_back(pieces.empty() ? "-" : joined(pieces, "+"));
  }
  const std::string text = joined(dims);
  return "[" + text + "]";
}

void print_placement(const ShownMove& placement) {
  std::printf("%s on %s\n\n", shape_text(placement.from.shape()).c_str(), heading_of(placement.from).c_str());
  print_holders(placement.from);
  if (!placement.to) return;
  if (placement.windows) {
    std::printf("\nwindows of %s: %s outputs\n\n", placement.windows->text.c_str(),
                shape_text(placement.windows->plan.outputs.shape()).c_str());
    print_windows(placement);
  } else {
    std::printf("\nmoved to %s\n\n", heading_of(*placement.to).c_str());
    print_holders(*placement.to);
  }
  print_traffic(placement);
}

void print_placement_json(const ShownMove& placement) {
  Json json = {{"from", json_of(placement.from)}};
  if (placement.to) {
    json["to"] = json_of(*placement.to);
    json["move"] = json_of(traffic_of(placement.from, *placement.to));
  }
  if (placement.windows) json["windows"] = json_of(*placement.windows);
  std::printf("%s\n", json.dump().c_str());
}

}  // namespace adjoin::cli
