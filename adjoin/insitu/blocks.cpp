#include "adjoin/insitu/blocks.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/values.hpp"

namespace adjoin::insitu {
namespace {

struct Block {
  int rank = 0, member = 0;
  std::vector<int64_t> starts, ends;

  std::string to_string() const {
    std::string text = "rank " + std::to_string(rank) + "'s block ";
    for (size_t d = 0; d < starts.size(); ++d) text += (d > 0 ? " x " : "") + Range{starts[d], ends[d]}.to_string();
    return text;
  }
};

bool are_disjoint(const Block& a, const Block& b) {
  for (size_t d = 0; d < a.starts.size(); ++d)
    if (a.ends[d] <= b.starts[d] || b.ends[d] <= a.starts[d]) return true;
  return a.member != b.member;
}

/// The blocks of all ranks that have cells.
std::vector<Block> blocks_of_all(const Communicator& world, const std::vector<int64_t>& shape,
                                 const std::vector<int64_t>& starts, const std::vector<int64_t>& sizes, int member) {
  const size_t dims = shape.size();
  std::vector<int64_t> mine = shape;
  mine.insert(mine.end(), starts.begin(), starts.end());
  mine.insert(mine.end(), sizes.begin(), sizes.end());
  mine.push_back(member);
  const auto ranks = static_cast<size_t>(world.size());
  std::vector<int64_t> all(mine.size() * ranks);
  world.all_gather(buffer(mine), buffer(all), std::vector(ranks, std::ssize(mine)));
  std::vector<Block> blocks;
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto numbers = all.begin() + std::ssize(mine) * rank;
    const auto of = [&](size_t kind) {
      const auto begin = numbers + static_cast<std::ptrdiff_t>(kind * dims);
      return std::vector<int64_t>(begin, begin + static_cast<std::ptrdiff_t>(dims));
    };
    Block block{rank, static_cast<int>(*(numbers + std::ssize(mine) - 1)), of(1), of(2)};
    const std::vector<int64_t> domain = of(0);  // this rank may have given another
    require(std::equal(domain.begin(), domain.end(), all.begin()), "blocks: rank ", rank, " gives the domain ",
            shape_text(domain), ", rank 0 another");
    const bool fits = std::ranges::all_of(domain, [](int64_t n) { return n > 0; }) &&
                      std::ranges::all_of(block.ends, [](int64_t n) { return n >= 0; });
    require(fits, "blocks: rank ", rank, ": expected a domain of at least 1 cell in each dim, and no negative size");
    if (std::ranges::find(block.ends, 0) != block.ends.end()) continue;
    require(block.member >= 0 && block.member < world.size(), "blocks: rank ", rank,
            ": expected a member from 0, of at most as many as there are ranks");
    for (size_t d = 0; d < dims; ++d) {
      const bool is_within = block.starts[d] >= 0 && block.ends[d] <= domain[d] - block.starts[d];
      block.ends[d] = is_within ? block.ends[d] + block.starts[d] : block.ends[d];
      require(is_within, "blocks: rank ", rank, "'s block begins at ", block.starts[d], " and has ", block.ends[d],
              " cells along a dim of ", domain[d]);
    }
    blocks.push_back(std::move(block));
  }
  require(!blocks.empty(), "blocks: no rank has a cell");
  return blocks;
}

/// Why the blocks are no Cartesian arrangement: `misfit` is the first that does not fit.
[[noreturn]] void refuse(const std::vector<Block>& blocks, const Block& misfit, const std::vector<int64_t>& shape,
                         int members) {
  int64_t left = members;
  for (const int64_t n : shape) left *= n;
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (size_t j = 0; j < i; ++j)
      require(are_disjoint(blocks[j], blocks[i]), "blocks: ", blocks[j].to_string(), " and ", blocks[i].to_string(),
              " overlap");
    int64_t cells = 1;
    for (size_t d = 0; d < shape.size(); ++d) cells *= blocks[i].ends[d] - blocks[i].starts[d];
    left -= cells;
  }
  require(left == 0, "blocks: ", left, " cells of the domain are in no block; the first that does not fit is ",
          misfit.to_string());
  throw InvalidArgument("blocks: they are no Cartesian arrangement; the first that does not fit is " +
                        misfit.to_string());
}

}  // namespace

Blocks::Blocks(const Communicator& world, DimOrder order, std::vector<int64_t> shape, std::vector<int64_t> starts,
               std::vector<int64_t> sizes, int member)
    : order_(order), shape_(std::move(shape)) {
  require(!shape_.empty() && starts.size() == shape_.size() && sizes.size() == shape_.size(),
          "blocks: expected a shape, starts and sizes of as many dims");
  if (order_ == DimOrder::columns_first)
    for (auto* numbers : {&shape_, &starts, &sizes}) std::ranges::reverse(*numbers);
  const std::vector<Block> blocks = blocks_of_all(world, shape_, starts, sizes, member);
  for (const Block& block : blocks) members_ = std::max(members_, block.member + 1);

  const auto refuse_all = [&](const Block& misfit) { refuse(blocks, misfit, shape_, members_); };
  std::vector<GridShape::Axis> axes;
  if (members_ > 1) axes.push_back({"member", members_});
  auto cells = static_cast<size_t>(members_);
  for (size_t d = 0; d < dims(); ++d) {
    std::set<int64_t> begins;
    for (const Block& block : blocks) begins.insert(block.starts[d]);
    starts_.emplace_back(begins.begin(), begins.end());
    axes.push_back({"d" + std::to_string(d), static_cast<int>(begins.size())});
    cells *= begins.size();
  }
  std::vector<int> ranks(std::min(cells, blocks.size() + 1), -1);
  for (const Block& block : blocks) {
    auto cell = static_cast<size_t>(block.member);
    for (size_t d = 0; d < dims(); ++d) {
      const auto part = std::ranges::lower_bound(starts_[d], block.starts[d]);
      const int64_t end = part + 1 == starts_[d].end() ? shape_[d] : *(part + 1);
      if (block.ends[d] != end) refuse_all(block);
      cell = cell * starts_[d].size() + static_cast<size_t>(part - starts_[d].begin());
    }
    if (cell >= ranks.size() || ranks[cell] >= 0) refuse_all(block);
    ranks[cell] = block.rank;
  }
  const bool begin_at_0 = std::ranges::all_of(starts_, [](const auto& starts) { return starts.front() == 0; });
  if (cells != blocks.size() || !begin_at_0) refuse_all(blocks.front());
  grid_.emplace(world, GridShape(axes, ranks));
}

Blocks Blocks::of_points(const Communicator& world, int64_t points) {
  const std::vector<int64_t> all = numbers_of_all(points, world);
  const auto least = std::ranges::min_element(all);
  require(*least >= 0, "points: rank ", least - all.begin(), ": expected a number of points, got ", *least);
  const auto total = std::reduce(all.begin(), all.end()), start = std::reduce(all.begin(), all.begin() + world.rank());
  require(total > 0, "points: no rank has one");
  Blocks blocks(world, DimOrder::rows_first, {total}, {start}, {points});
  blocks.are_points_ = true;
  return blocks;
}

nn::LayoutRule Blocks::rule() const {
  return [grid = grid_->shape(), starts = starts_, domain = shape_,
          members = members_](const std::vector<int64_t>& shape) {
    std::vector<Layout::Cut> cuts;
    const size_t first = shape.size() - domain.size();
    if (members > 1) cuts.push_back({Split::balanced(shape[0], members, 0), {"member"}});
    for (size_t d = 0; d < domain.size(); ++d) {
      std::vector<int64_t> scaled;
      for (const int64_t start : starts[d]) scaled.push_back((start * shape[first + d] + domain[d] - 1) / domain[d]);
      cuts.push_back({Split::at(scaled, shape[first + d], static_cast<int64_t>(first + d)), {"d" + std::to_string(d)}});
    }
    return Layout(grid, shape, std::move(cuts));
  };
}

}  // namespace adjoin::insitu
