#include "adjoin/cli/layout_picture.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "adjoin/base/error.hpp"
#include "adjoin/lab/svg.hpp"

namespace adjoin::cli {
namespace {

using lab::Svg;

constexpr int kMostRanks = 64;
constexpr size_t kMostSlices = 12, kMostCopies = 8;
constexpr double kLeft = 48, kTop = 48, kAcross = 52, kHeading = 42, kBelow = 12, kLeastWidth = 620;
constexpr double kLargestUnit = 34, kWidest = 420,
                 kSmallestGrid = 8;              // of a panel; of an element with a border
constexpr double kLetter = 7, kHighLetter = 13;  // of a label
constexpr const char* kGrey = "fill=\"#555\" font-size=\"10\"";

using Box = std::vector<Range>;  // a range of global indices for each dim

/// A box of the tensor on one rank, and the ranks that it came from.
struct Block {
  Box box;
  int rank = 0;
  std::vector<int> sources = {};  // empty if it did not move
  bool is_outline = false;        // what the rank's windows need instead of what it holds
};

/// One copy of the whole tensor.
struct Panel {
  std::string title;
  std::vector<Block> blocks;
};
/// The copies of the tensor, one below the other.
using Side = std::vector<Panel>;

/// Calls `visit` for each combination of one range for each dim.
void for_each_box(const std::vector<std::vector<Range>>& ranges, const std::function<void(const Box&)>& visit) {
  std::vector<Box> boxes{{}};
  for (const auto& of_dim : ranges) {
    std::vector<Box> longer;
    for (const Box& box : boxes)
      for (const Range& range : of_dim) {
        if (range.size() == 0) continue;
        longer.push_back(box);
        longer.back().push_back(range);
      }
    boxes = std::move(longer);
  }
  for (const Box& box : boxes) visit(box);
}

std::vector<Block> held_by(const Layout& layout, int cell) {
  std::vector<Block> blocks;
  for_each_box(layout.ranges_of(cell), [&](const Box& box) { blocks.push_back({box, layout.grid().rank_of(cell)}); });
  return blocks;
}

/// The range in the tensor of indices [offset, offset + size) of a piece; a box of a plan is inside one range.
Range global_of(const std::vector<Range>& ranges, int64_t offset, int64_t size) {
  for (const Range& range : ranges) {
    if (offset < range.size()) return {range.begin + offset, range.begin + offset + size};
    offset -= range.size();
  }
  throw InternalError("layout: a box lies outside its piece");
}

/// What a cell of `to` receives; the summands of one box are one block.
std::vector<Block> received_by(const Layout& from, const Layout& to, int cell) {
  const int rank = to.grid().rank_of(cell);
  const auto ranges = to.ranges_of(cell);
  std::vector<Block> blocks;
  for (const Piece& piece : plan_move(from, to, rank).receives) {
    Box box;
    for (size_t dim = 0; dim < ranges.size(); ++dim)
      box.push_back(global_of(ranges[dim], piece.offset[dim], piece.sizes[dim]));
    const auto same = std::find_if(blocks.begin(), blocks.end(), [&](const Block& block) { return block.box == box; });
    if (same != blocks.end())
      same->sources.push_back(piece.peer);
    else
      blocks.push_back({std::move(box), rank, {piece.peer}});
  }
  return blocks;
}

/// What the windows of a cell need, with the surrounding zeros.
std::vector<Block> needed_by(const ShownMove& placement, int cell) {
  auto ranges = placement.to->ranges_of(cell);
  const std::vector<int> parts = placement.to->parts_of(cell);
  for (size_t dim = 0; dim < ranges.size(); ++dim) {
    const Pads pads = placement.windows->plan.halos[dim].pads[static_cast<size_t>(parts[dim])];
    if (ranges[dim].empty() || placement.windows->is_transposed) continue;
    ranges[dim].front().begin -= pads.left;
    ranges[dim].back().end += pads.right;
  }
  std::vector<Block> blocks;
  for_each_box(ranges, [&](const Box& box) { blocks.push_back({box, cell, {}, /*is_outline=*/true}); });
  return blocks;
}

/// A panel for each copy of the tensor: cells of one panel differ only along the axes that cut the tensor.
Side side_of(const Layout& layout, const std::string& title,
             const std::function<std::vector<Block>(int cell)>& blocks_of) {
  std::map<std::string, Panel> panels;  // by title; coordinates have one digit, as only few ranks are drawn
  for (int cell = 0; cell < layout.grid().cells(); ++cell) {
    const std::vector<int> at = layout.grid().coordinates(cell);
    std::string copy;
    for (size_t axis = 0; axis < at.size(); ++axis) {
      const auto& [name, size] = layout.grid().axes()[axis];
      if (layout.kind(name) == Kind::split || size == 1) continue;
      copy += (title.empty() && copy.empty() ? "" : ", ") + std::string(adjoin::name(layout.kind(name))) +
              " along axis " + name + ": " + std::to_string(at[axis]);
    }
    Panel& panel = panels[copy];
    panel.title = title + copy;
    for (Block& block : blocks_of(cell)) panel.blocks.push_back(std::move(block));
  }
  Side result;
  for (auto& [copy, panel] : panels) result.push_back(std::move(panel));
  return result;
}

/// The sides that are drawn beside each other: before and after a move.
std::vector<Side> sides_of(const ShownMove& placement) {
  const Layout& from = placement.from;
  const auto held = [&](int cell) { return held_by(from, cell); };
  if (placement.windows)
    return {side_of(from, "held, and dashed what windows need", [&](int cell) {
      std::vector<Block> blocks = held(cell);
      for (Block& block : needed_by(placement, cell)) blocks.push_back(std::move(block));
      return blocks;
    })};
  if (!placement.to) return {side_of(from, "", held)};
  const auto received = [&](int cell) { return received_by(from, *placement.to, cell); };
  return {side_of(from, "before", held), side_of(*placement.to, "after", received)};
}

/// The begins and ends of the blocks' ranges in one dim.
std::vector<int64_t> borders_of(const std::vector<Side>& sides, size_t dim) {
  std::set<int64_t> borders;
  for (const Side& side : sides)
    for (const Panel& panel : side)
      for (const Block& block : panel.blocks) borders.insert({block.box[dim].begin, block.box[dim].end});
  return {borders.begin(), borders.end()};
}

/// The planes of the last two dims, one for each combination of index ranges of the dims before; a tensor with one dim is a
/// row.
std::vector<Box> slices_of(const std::vector<Side>& sides, size_t dims) {
  std::vector<Box> slices{{}};
  for (size_t dim = 0; dim + 2 < dims; ++dim) {
    const std::vector<int64_t> borders = borders_of(sides, dim);
    std::vector<Box> longer;
    for (const Box& slice : slices)
      for (size_t i = 0; i + 1 < borders.size(); ++i) {
        longer.push_back(slice);
        longer.back().push_back({borders[i], borders[i + 1]});
      }
    slices = std::move(longer);
    require(slices.size() <= kMostSlices, [&] {
      return "--svg draws up to " + std::to_string(kMostSlices) +
             " slices of the dims before the last two, there are " + std::to_string(slices.size()) + " and more";
    });
  }
  return slices;
}

std::string label_of(const Block& block) {
  const std::string rank = std::to_string(block.rank);
  if (block.sources.empty() || block.sources == std::vector{block.rank}) return rank;
  return (block.sources.size() == 1 ? std::to_string(block.sources[0]) : "sum") + "→" + rank;
}

class Drawing {
 public:
  explicit Drawing(const ShownMove& placement)
      : sides_(sides_of(placement)),
        dims_(placement.from.shape().size()),
        slices_(slices_of(sides_, dims_)),
        columns_(extent(dims_ - 1)),
        rows_(dims_ > 1 ? extent(dims_ - 2) : Range{0, 1}),
        unit_x_(std::min(kLargestUnit, kWidest / static_cast<double>(std::max<int64_t>(1, columns_.size())))),
        unit_y_(std::min(kLargestUnit, kWidest / static_cast<double>(std::max<int64_t>(1, rows_.size())))) {}

  std::string svg(const std::string& title, const std::vector<std::string>& legend) {
    double width = kLeastWidth, bottom = kTop;
    for (size_t side = 0; side < sides_.size(); ++side) {
      left_ = kLeft + static_cast<double>(side) * (panel_width() + kAcross);
      top_ = kTop;
      for (const Panel& panel : sides_[side])
        for (const Box& slice : slices_) draw(panel, slice);
      width = std::max(width, left_ + panel_width() + kAcross);
      bottom = std::max(bottom, top_);
    }
    for (const std::string& line : legend) svg_.text(24, bottom += 16, "start", line, kGrey);
    return svg_.picture(width, bottom + 16, title);
  }

 private:
  /// The indices that are drawn in a dim, from the first padded one to the last.
  Range extent(size_t dim) const {
    const std::vector<int64_t> borders = borders_of(sides_, dim);
    return borders.empty() ? Range{} : Range{borders.front(), borders.back()};
  }

  double panel_width() const { return std::max(unit_x_ * static_cast<double>(columns_.size()), 170.0); }
  double panel_height() const { return unit_y_ * static_cast<double>(rows_.size()); }
  double x(int64_t column) const { return left_ + unit_x_ * static_cast<double>(column - columns_.begin); }
  double y(int64_t row) const { return top_ + unit_y_ * static_cast<double>(row - rows_.begin); }

  /// Draws a slice of a panel below the earlier ones.
  void draw(const Panel& panel, const Box& slice) {
    std::vector<Block> shown;
    for (const Block& block : panel.blocks)
      if (is_in(block, slice)) shown.push_back(block);
    std::string title = panel.title, indices;
    for (const Range& range : slice) indices += std::to_string(range.begin) + ":" + std::to_string(range.end) + ", ";
    if (!indices.empty()) title += (title.empty() ? "[" : ": [") + indices + "…]";
    svg_.text(left_, top_ + 14, "start", title);
    top_ += kHeading;
    draw_borders(shown);
    for (const Block& block : shown)
      if (!block.is_outline) draw(block);
    for (const Block& block : shown)
      if (block.is_outline) draw_outline(block);
    top_ += panel_height() + kBelow;
  }

  static bool is_in(const Block& block, const Box& slice) {
    for (size_t dim = 0; dim < slice.size(); ++dim)
      if (block.box[dim].begin > slice[dim].begin || block.box[dim].end <= slice[dim].begin) return false;
    return true;
  }

  Range columns_of(const Block& block) const { return block.box[dims_ - 1]; }
  Range rows_of(const Block& block) const { return dims_ > 1 ? block.box[dims_ - 2] : Range{0, 1}; }

  /// Writes the indices at which blocks begin and end, above and at the left.
  void draw_borders(const std::vector<Block>& blocks) {
    std::set<int64_t> columns, rows;
    for (const Block& block : blocks) {
      if (block.is_outline) continue;
      columns.insert({columns_of(block).begin, columns_of(block).end});
      rows.insert({rows_of(block).begin, rows_of(block).end});
    }
    double last = -1e9;
    for (const int64_t column : columns) {
      const std::string number = std::to_string(column);
      if (x(column) - last < kLetter * static_cast<double>(number.size() + 1)) continue;
      svg_.text(last = x(column), top_ - 5, "middle", number, kGrey);
    }
    last = -1e9;
    for (const int64_t row : rows) {
      if (dims_ == 1 || y(row) - last < kHighLetter) continue;
      last = y(row);
      svg_.text(left_ - 6, last + 4, "end", std::to_string(row), kGrey);
    }
  }

  void draw(const Block& block) {
    const Range columns = columns_of(block), rows = rows_of(block);
    const double width = x(columns.end) - x(columns.begin), height = y(rows.end) - y(rows.begin);
    const std::string colour = Svg::colour_of(block.rank), label = label_of(block);
    std::vector<std::vector<Range>> ranges;
    for (const Range& range : block.box) ranges.push_back({range});
    svg_.begin_group("rank " + std::to_string(block.rank) + ": " + ranges_text(ranges) +
                     (label == std::to_string(block.rank) ? "" : ", " + label));
    svg_.box(x(columns.begin), y(rows.begin), width, height, "fill=\"" + colour + "\" fill-opacity=\"0.22\"");
    const std::string thin = "stroke=\"" + colour + "\" stroke-width=\"0.5\" stroke-opacity=\"0.6\"";
    for (int64_t c = columns.begin + 1; unit_x_ >= kSmallestGrid && c < columns.end; ++c)
      svg_.line(x(c), y(rows.begin), x(c), y(rows.end), thin);
    for (int64_t r = rows.begin + 1; unit_y_ >= kSmallestGrid && r < rows.end; ++r)
      svg_.line(x(columns.begin), y(r), x(columns.end), y(r), thin);
    const auto foreign =
        std::find_if(block.sources.begin(), block.sources.end(), [&](int source) { return source != block.rank; });
    if (foreign != block.sources.end())
      svg_.box(x(columns.begin), y(rows.begin), std::min(5.0, width / 3), height,
               "fill=\"" + std::string(Svg::colour_of(*foreign)) + "\"");
    svg_.box(x(columns.begin), y(rows.begin), width, height,
             "fill=\"none\" stroke=\"" + colour + "\" stroke-width=\"1.5\"");
    const auto letters = static_cast<double>(label.size() - (label.find("→") != label.npos ? 2 : 0));
    if (letters * kLetter + 6 <= width && kHighLetter <= height)
      svg_.text(x(columns.begin) + width / 2, y(rows.begin) + height / 2 + 4, "middle", label, "fill=\"#111\"");
    svg_.end_group();
  }

  /// The outlines of neighbours overlap, so each is a little smaller than the previous one.
  void draw_outline(const Block& block) {
    const Range columns = columns_of(block), rows = rows_of(block);
    const double inset = std::min(2.0 + 2.5 * (block.rank % 4), 0.3 * std::min(unit_x_, unit_y_));
    svg_.box(x(columns.begin) + inset, y(rows.begin) + inset, x(columns.end) - x(columns.begin) - 2 * inset,
             y(rows.end) - y(rows.begin) - 2 * inset,
             "fill=\"none\" stroke=\"" + std::string(Svg::colour_of(block.rank)) +
                 "\" stroke-width=\"2\" stroke-dasharray=\"7 3\"");
  }

  const std::vector<Side> sides_;
  const size_t dims_;
  const std::vector<Box> slices_;
  const Range columns_, rows_;
  const double unit_x_, unit_y_;
  double left_ = 0, top_ = 0;  // of the current drawing
  Svg svg_;
};

std::vector<std::string> legend_of(const ShownMove& placement) {
  std::vector<std::string> legend{"Number and colour: the rank that holds the elements."};
  if (placement.windows)
    legend.push_back("Dashed, in a rank's colour: what it needs for its windows, padding included.");
  else if (placement.to)
    legend.push_back(
        "1→0: rank 0 receives them from rank 1, whose colour is at their left; sum→0: rank 0 adds up several.");
  return legend;
}

}  // namespace

std::string picture_of(const ShownMove& placement) {
  const int ranks = std::max(placement.from.grid().cells(), placement.to ? placement.to->grid().cells() : 0);
  require(ranks <= kMostRanks,
          [&] { return "--svg draws up to " + std::to_string(kMostRanks) + " ranks, got " + std::to_string(ranks); });
  for (const Side& side : sides_of(placement))
    require(side.size() <= kMostCopies, [&] {
      return "--svg draws up to " + std::to_string(kMostCopies) + " copies of the tensor, got " +
             std::to_string(side.size());
    });
  return Drawing(placement).svg(title_of(placement), legend_of(placement));
}

}  // namespace adjoin::cli
