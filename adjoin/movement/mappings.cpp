#include "adjoin/movement/mappings.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/linear_map.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin {
namespace {

at::Tensor same(const at::Tensor& x) {
  return x;
}

std::function<at::Tensor(const at::Tensor&)> sum_over(const Communicator& group) {
  return [=](const at::Tensor& t) { return sum(t, group); };
}

MovedKinds moved(const char* name, Kind from, Kind to, const Communicator& group) {
  return {.name = name, .from = from, .to = to, .group = group};
}

/// One movement over `kinds.group`.
template <class Forward, class Adjoint>
at::Tensor applied(const Forward& forward, const Adjoint& adjoint, const MovedKinds& kinds, const at::Tensor& x,
                   const CallSite::Where& where) {
  const CallSite site(where);
  return on_reals(x, [&](const at::Tensor& t) { return apply({forward, adjoint, kinds}, t, kinds.group); });
}

void check(const char* operation, const at::Tensor& x, const Communicator& group, const Split& split,
           int64_t expected) {
  require(split.parts() == group.size(), [&] {
    return std::string(operation) + ": expected a split into " + std::to_string(group.size()) +
           " parts, one for each rank of the group, got " + std::to_string(split.parts());
  });
  require(split.is_exact(), [&] { return std::string(operation) + ": expected an exact split, got a covering one"; });
  require(split.dim() < x.dim(), [&] {
    return std::string(operation) + ": rank " + std::to_string(group.rank()) +
           ": expected a split of one of the tensor's " + std::to_string(x.dim()) + " dims, got one of dim " +
           std::to_string(split.dim());
  });
  require(x.size(split.dim()) == expected, [&] {
    return std::string(operation) + ": rank " + std::to_string(group.rank()) + ": expected " +
           std::to_string(expected) + " indices on dim " + std::to_string(split.dim()) + " (" + split.to_string() +
           "), got " + std::to_string(x.size(split.dim()));
  });
}

std::vector<int64_t> with_size(at::IntArrayRef sizes, int64_t dim, int64_t size) {
  std::vector<int64_t> result = sizes.vec();
  result[static_cast<size_t>(dim)] = size;
  return result;
}

/// The number of elements in each rank's block, over all dims.
std::vector<int64_t> block_counts(at::IntArrayRef sizes, const Split& split) {
  int64_t others = 1;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (static_cast<int64_t>(d) != split.dim()) others *= sizes[d];
  std::vector<int64_t> counts = split.sizes();
  for (int64_t& count : counts) count *= others;
  return counts;
}

/// Whether the blocks, one after another in memory, are the whole tensor.
bool blocks_are_whole(at::IntArrayRef sizes, const Split& split) {
  for (int64_t d = 0; d < split.dim(); ++d)
    if (sizes[static_cast<size_t>(d)] != 1) return false;
  return split.in_order();
}

/// Calls `visit` for each range of each part's block, with the range's place in the whole and in `blocks`, where the
/// blocks follow one another.
template <class Visit>
void visit_pieces(const at::Tensor& whole, const at::Tensor& blocks, const Split& split,
                  const std::vector<int64_t>& counts, const Visit& visit) {
  int64_t begin = 0;
  for (int part = 0; part < split.parts(); ++part) {
    const int64_t count = counts[static_cast<size_t>(part)];
    const at::Tensor block =
        blocks.narrow(0, begin, count).view(with_size(whole.sizes(), split.dim(), split.size(part)));
    int64_t offset = 0;
    for (const Range& range : split.ranges(part)) {
      visit(whole.narrow(split.dim(), range.begin, range.size()), block.narrow(split.dim(), offset, range.size()));
      offset += range.size();
    }
    begin += count;
  }
}

}  // namespace

at::Tensor sum(const at::Tensor& x, const Communicator& group) {
  if (group.size() == 1) return x;
  const at::NoGradGuard no_gradient;
  const c10::AutoFwGradMode no_tangent(false);
  const at::Tensor result = plain("sum", x).clone(at::MemoryFormat::Contiguous);
  group.all_reduce(buffer_of_reals(result), Reduction::sum);
  return result;
}

at::Tensor copy_to(const at::Tensor& x, const Communicator& group, CallSite::Where where) {
  return applied(same, sum_over(group), moved("copy_to", Kind::replicated, Kind::copied, group), x, where);
}

/// The adjoint of a CopyForLayer.
struct CopyForLayer::Adjoint {
  Communicator group;
  std::optional<CallSite::Where> caller;
  at::Tensor gradient = {};  // what the layer has given, until the adjoint gets it
  std::unique_ptr<Pending> sum = {};

  void begin(const at::Tensor& given) {
    if (group.size() == 1 || given.is_complex()) return;  // of a complex gradient the adjoint gets another tensor
    const CallSite site(caller);
    sum.reset();
    gradient = given;
    if (group.backend()->spans_hosts()) sum = group.begin().all_reduce(buffer(gradient));
  }
  at::Tensor sum_of(const at::Tensor& t) {
    const at::Tensor own = std::exchange(gradient, {});
    const std::unique_ptr<Pending> begun = std::exchange(sum, nullptr);
    if (!t.is_same(own)) return adjoin::sum(t, group);
    begun ? begun->wait() : group.all_reduce(buffer(own));
    return own;
  }
};

CopyForLayer::CopyForLayer(const at::Tensor& x, const Communicator& group, CallSite::Where where) {
  const CallSite site(where);
  const auto adjoint = std::make_shared<Adjoint>(group, CallSite::current());
  adjoint_ = adjoint;
  copy_ = applied(
      same, [adjoint](const at::Tensor& t) { return adjoint->sum_of(t); },
      moved("copy_to", Kind::replicated, Kind::copied, group), x, where);
}

std::function<void(const at::Tensor&)> CopyForLayer::begin() const {
  return [adjoint = adjoint_](const at::Tensor& gradient) {
    if (const auto movement = adjoint.lock()) movement->begin(gradient);
  };
}

at::Tensor reduce_from(const at::Tensor& x, const Communicator& group, CallSite::Where where) {
  return applied(sum_over(group), same, moved("reduce_from", Kind::partial, Kind::replicated, group), x, where);
}

at::Tensor all_sum_reduce(const at::Tensor& x, const Communicator& group, CallSite::Where where) {
  const auto sum = sum_over(group);
  return applied(sum, sum, moved("all_sum_reduce", Kind::partial, Kind::copied, group), x, where);
}

at::Tensor all_sum_reduce(const at::Tensor& x, const Grid& grid, const std::vector<std::string>& axes,
                          CallSite::Where where) {
  return all_sum_reduce(x, grid.group(axes), where);
}

at::Tensor take_block(const at::Tensor& whole, const Split& split, int part) {
  const auto ranges = split.ranges(part);
  if (ranges.size() == 1) return whole.narrow(split.dim(), ranges[0].begin, ranges[0].size());
  if (ranges.empty()) return whole.narrow(split.dim(), 0, 0);
  std::vector<at::Tensor> pieces;
  for (const Range& range : ranges) pieces.push_back(whole.narrow(split.dim(), range.begin, range.size()));
  return at::cat(pieces, split.dim());
}

namespace {

/// A call of the group that moves blocks: what it reads and writes, and where its result is to be, if not in `out`.
struct BlocksCall {
  at::Tensor in, out, whole = {};
  std::vector<int64_t> counts;
};

BlocksCall call_that_joins(const at::Tensor& block, const Split& split) {
  const at::Tensor mine = block.detach().contiguous();
  const auto sizes = with_size(block.sizes(), split.dim(), split.size());
  const auto counts = block_counts(sizes, split);
  at::Tensor whole = at::empty(sizes, block.options().requires_grad(false));
  if (blocks_are_whole(sizes, split)) return {.in = mine, .out = std::move(whole), .counts = counts};
  return {.in = mine, .out = at::empty({whole.numel()}, whole.options()), .whole = whole, .counts = counts};
}

at::Tensor joined(const BlocksCall& call, const Split& split) {
  if (!call.whole.defined()) return call.out;
  visit_pieces(call.whole, call.out, split, call.counts,
               [](const at::Tensor& of_whole, const at::Tensor& of_block) { of_whole.copy_(of_block); });
  return call.whole;
}

BlocksCall call_that_sums(const at::Tensor& whole, const Communicator& group, const Split& split) {
  const auto counts = block_counts(whole.sizes(), split);
  at::Tensor blocks;
  if (blocks_are_whole(whole.sizes(), split)) {
    blocks = whole.detach().contiguous();
  } else {
    blocks = at::empty({whole.numel()}, whole.options().requires_grad(false));
    visit_pieces(whole, blocks, split, counts,
                 [](const at::Tensor& of_whole, const at::Tensor& of_block) { of_block.copy_(of_whole); });
  }
  at::Tensor mine =
      at::empty(with_size(whole.sizes(), split.dim(), split.size(group.rank())), whole.options().requires_grad(false));
  return {.in = std::move(blocks), .out = std::move(mine), .counts = counts};
}

bool is_whole(const Communicator& group, const Split& split) {
  return group.size() == 1 && split.in_order();
}

}  // namespace

at::Tensor join_blocks(const at::Tensor& block, const Communicator& group, const Split& split) {
  if (is_whole(group, split)) return block;
  const BlocksCall call = call_that_joins(block, split);
  group.all_gather(buffer(call.in), buffer(call.out), call.counts);
  return joined(call, split);
}

at::Tensor sum_blocks(const at::Tensor& whole, const Communicator& group, const Split& split) {
  if (group.size() == 1) return take_block(whole, split, 0);
  const BlocksCall call = call_that_sums(whole, group, split);
  group.reduce_scatter(buffer(call.in), buffer(call.out), call.counts, Reduction::sum);
  return call.out;
}

BegunBlocks BegunBlocks::of_join(const at::Tensor& block, const Communicator& group, const Split& split) {
  BegunBlocks begun;
  if (is_whole(group, split)) {
    begun.result_ = [block] { return block; };
    return begun;
  }
  const BlocksCall call = call_that_joins(block, split);
  begun.result_ = [call, split] { return joined(call, split); };
  begun.call_ = group.begin().all_gather(buffer(call.in), buffer(call.out), call.counts);
  return begun;
}

BegunBlocks BegunBlocks::of_sum(const at::Tensor& whole, const Communicator& group, const Split& split) {
  BegunBlocks begun;
  if (group.size() == 1) {
    begun.result_ = [block = take_block(whole, split, 0)] { return block; };
    return begun;
  }
  const BlocksCall call = call_that_sums(whole, group, split);
  begun.result_ = [call] { return call.out; };
  begun.call_ = group.begin().reduce_scatter(buffer(call.in), buffer(call.out), call.counts, Reduction::sum);
  return begun;
}

at::Tensor BegunBlocks::result() {
  if (call_) std::exchange(call_, nullptr)->wait();
  return std::exchange(result_, nullptr)();
}

namespace {

enum class BlockMap : uint8_t { take, join, sum };

/// One of the four movements between a whole tensor and its blocks.
at::Tensor applied(BlockMap forward, BlockMap adjoint, const MovedKinds& kinds, const at::Tensor& x, const Split& split,
                   const CallSite::Where& where) {
  const Communicator& group = kinds.group;
  check(kinds.name, x, group, split, forward == BlockMap::join ? split.size(group.rank()) : split.size());
  const auto map = [=](BlockMap way) {
    return [=](const at::Tensor& t) {
      if (way == BlockMap::take) return take_block(t, split, group.rank());
      return way == BlockMap::join ? join_blocks(t, group, split) : sum_blocks(t, group, split);
    };
  };
  return applied(map(forward), map(adjoint), kinds, x, where);
}

}  // namespace

at::Tensor gather_from(const at::Tensor& x, const Communicator& group, const Split& split, CallSite::Where where) {
  const MovedKinds kinds = moved("gather_from", Kind::split, Kind::replicated, group);
  return applied(BlockMap::join, BlockMap::take, kinds, x, split, where);
}

at::Tensor scatter_to(const at::Tensor& x, const Communicator& group, const Split& split, CallSite::Where where) {
  const MovedKinds kinds = moved("scatter_to", Kind::replicated, Kind::split, group);
  return applied(BlockMap::take, BlockMap::join, kinds, x, split, where);
}

at::Tensor all_gather(const at::Tensor& x, const Communicator& group, const Split& split, CallSite::Where where) {
  const MovedKinds kinds = moved("all_gather", Kind::split, Kind::copied, group);
  return applied(BlockMap::join, BlockMap::sum, kinds, x, split, where);
}

at::Tensor reduce_scatter(const at::Tensor& x, const Communicator& group, const Split& split, CallSite::Where where) {
  const MovedKinds kinds = moved("reduce_scatter", Kind::partial, Kind::split, group);
  return applied(BlockMap::sum, BlockMap::join, kinds, x, split, where);
}

}  // namespace adjoin
