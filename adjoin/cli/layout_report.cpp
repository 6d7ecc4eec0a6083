#include "adjoin/cli/layout_report.hpp"

#include <algorithm>
#include <map>

#include "adjoin/base/text.hpp"

namespace adjoin::cli {
namespace {

constexpr size_t kMostPairsListed = 200;  // transfers
constexpr int64_t kBytes = 4;             // of a float32

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

Json json_of(const std::vector<std::vector<Range>>& ranges) {
  const auto pair = [](const Range& range) { return std::pair(range.begin, range.end); };
  return list_of(ranges, [&](const auto& dim) { return list_of(dim, pair); });
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

/// Adds a layout and what each rank holds of it; with windows that need it, to the text what they compute and need.
void add_layout(Report& report, Json& place, const Layout& layout, const std::optional<Windows>& windows = {}) {
  place["layout"] = Json::parse(layout.to_json());
  const auto cells = static_cast<size_t>(layout.grid().cells());
  report.table(place["ranks"], windows ? "rl" : "rrl", cells, [&](size_t i) {
    const auto cell = static_cast<int>(i);
    const auto at = layout.grid().coordinates(cell);
    const auto shape = layout.shape_of(cell);
    const auto ranges = layout.ranges_of(cell);
    Row row{{"rank", layout.grid().rank_of(cell)}};
    if (!windows) row.push_back({"elements=", elements_of(shape)});
    row.push_back({windows ? "=at" : "at", at, joined(at, ",")});
    row.push_back({"=shape", shape});
    if (windows) row.push_back({"computes=", ranges_text(windows->plan.outputs.ranges_of(cell))});
    row.push_back({windows ? "needs=ranges" : "holds=ranges", json_of(ranges), ranges_text(ranges)});
    if (windows)
      row.push_back(
          {windows->is_transposed ? "adds to its outputs=" : "adds=", pads_of(*windows, layout.parts_of(cell))});
    return row;
  });
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

Json json_of(const Windows& windows) {
  const auto pads = [](const Pads& pad) { return std::pair(pad.left, pad.right); };
  const auto places = [](const Places& p) -> Json {
    return {{"begin", p.begin}, {"step", p.step}, {"count", p.count}};
  };
  const auto order = [&](const auto& part) { return list_of(part, places); };
  Report outputs{.as_json = true};
  add_layout(outputs, outputs.json, windows.plan.outputs);
  return {{"outputs", outputs.json},
          {"dims", list_of(windows.plan.halos, [&](const Halo& halo) -> Json {
             return {{"pads", list_of(halo.pads, pads)}, {"order", list_of(halo.order, order)}};
           })}};
}

void add_traffic(Report& report, Json& place, const ShownMove& placement) {
  const Traffic traffic = traffic_of(placement.from, *placement.to);
  const int64_t bytes = traffic.elements * kBytes;
  report.text << '\n'
              << counted(traffic.boxes, "box", "boxes") << " of " << counted(traffic.elements, "element")
              << " between ranks\n"
              << counted(traffic.staying, "element") << " from the rank itself\n"
              << counted(bytes, "byte") << " of float32, carried out as "
              << name(kind_of_move(placement.from, *placement.to).way) << '\n';
  place = {{"boxes", traffic.boxes}, {"elements", traffic.elements}, {"bytes", bytes}, {"staying", traffic.staying}};
  if (!traffic.transfers.empty()) report.text << '\n';
  const size_t pairs = traffic.transfers.size(), shown = report.as_json ? pairs : std::min(pairs, kMostPairsListed);
  report.table(place["transfers"], "r", shown, [&](size_t i) -> Row {
    const auto& [from, to, boxes, elements] = traffic.transfers[i];
    return {{"from", from}, {"to", to}, {"boxes", boxes}, {"elements", elements}, {"bytes", elements * kBytes}};
  });
  if (pairs > shown) report.text << "… and between " << pairs - shown << " more pairs of ranks; --json lists all\n";
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

Report report_of(const ShownMove& placement, bool as_json) {
  Report report{as_json};
  report.text << shape_text(placement.from.shape()) << " on " << heading_of(placement.from) << "\n\n";
  add_layout(report, report.json["from"], placement.from);
  if (!placement.to) return report;
  if (const auto& windows = placement.windows)
    report.text << "\nwindows of " << windows->text << ": " << shape_text(windows->plan.outputs.shape())
                << " outputs\n\n";
  else
    report.text << "\nmoved to " << heading_of(*placement.to) << "\n\n";
  add_layout(report, report.json["to"], *placement.to, placement.windows);
  add_traffic(report, report.json["move"], placement);
  if (placement.windows) report.json["windows"] = json_of(*placement.windows);
  return report;
}

}  // namespace adjoin::cli
