#include "adjoin/linalg/row_products.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "adjoin/linalg/local.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::linalg {
namespace {

/// Rows of a part's piece that are a run of the whole too.
struct Run {
  int64_t local, global, count;
};

/// Those of rows [begin, end) of the piece.
std::vector<Run> runs_of(const Split& rows, int part, int64_t begin, int64_t end) {
  std::vector<Run> runs;
  int64_t local = 0;
  for (const Range& range : rows.ranges(part)) {
    const int64_t first = std::max(begin, local), last = std::min(end, local + range.size());
    if (first < last) runs.push_back({first, range.begin + first - local, last - first});
    local += range.size();
  }
  return runs;
}
std::vector<Run> runs_of(const Split& rows, int part) {
  return runs_of(rows, part, 0, rows.size(part));
}

/// Bytes of one index of a matrix's dim, in all leading ones' matrices, where the other dim has `others`.
int64_t bytes_of_index(const at::Tensor& x, int64_t others) {
  int64_t matrices = 1;
  for (int64_t dim = 0; dim + 2 < x.dim(); ++dim) matrices *= x.size(dim);
  return matrices * others * x.element_size();
}

}  // namespace

RowProducts::RowProducts(Communicator group, Split rows, std::optional<int64_t> chunk)
    : group_(std::move(group)), rows_(std::move(rows)), chunk_(chunk) {}

template <class Round>
void RowProducts::for_each_chunk(int64_t size, int64_t bytes, const Round& round) const {
  const int64_t most = chunk_.value_or(automatic_chunk(bytes));
  if (size == 0) return;
  const int64_t rounds = (size + most - 1) / most;
  const int64_t step = chunk_ ? most : (size + rounds - 1) / rounds;
  for (int64_t begin = 0; begin < size; begin += step) round(begin, std::min(step, size - begin));
}

at::Tensor RowProducts::nt(const at::Tensor& left, const at::Tensor& right) const {
  const int me = group_.rank();
  const at::Tensor out = empty_matrices(left, rows_.size(me), rows_.size());
  // The columns of rows [begin, …) of a rank's right, which `block` holds.
  const auto fill = [&](int rank, int64_t begin, const at::Tensor& block) {
    for (const Run& run : runs_of(rows_, rank, begin, begin + block.size(-2)))
      multiply_into(out.narrow(-1, run.global, run.count), left,
                    block.narrow(-2, run.local - begin, run.count).transpose(-2, -1));
  };
  fill(me, 0, right);

  const std::vector<int64_t> sizes = rows_.sizes();
  const int64_t longest = *std::max_element(sizes.begin(), sizes.end());
  const int64_t bytes = group_.size() * bytes_of_index(right, right.size(-1));
  if (group_.size() == 1) return out;
  std::vector<at::Tensor> memory(sizes.size());
  for_each_chunk(longest, bytes, [&](int64_t begin, int64_t count) {
    const auto of_rank = [&](int rank) { return std::clamp<int64_t>(rows_.size(rank) - begin, 0, count); };
    Boxes boxes;
    std::vector<at::Tensor> blocks(sizes.size());
    for (int rank = 0; rank < group_.size(); ++rank) {
      if (rank == me || !has_rows(rank) || !has_rows(me)) continue;
      at::Tensor& kept = memory[static_cast<size_t>(rank)];
      if (!kept.defined()) kept = empty_matrices(right, of_rank(rank), right.size(-1));
      boxes.receive(blocks[static_cast<size_t>(rank)] = kept.narrow(-2, 0, of_rank(rank)), rank);
      boxes.send(right.narrow(-2, std::min(begin, rows_.size(me)), of_rank(me)), rank);
    }
    boxes.exchange(group_);
    for (int rank = 0; rank < group_.size(); ++rank)
      if (blocks[static_cast<size_t>(rank)].defined()) fill(rank, begin, blocks[static_cast<size_t>(rank)]);
  });
  return out;
}

at::Tensor RowProducts::nn(const at::Tensor& left, const at::Tensor& right) const {
  const int me = group_.rank();
  const at::Tensor out = empty_matrices(left, rows_.size(me), right.size(-1));
  at::Tensor memory;
  for_each_chunk(right.size(-1), bytes_of_index(right, rows_.size()), [&](int64_t begin, int64_t count) {
    const at::Tensor mine = right.narrow(-1, begin, count);
    if (!memory.defined()) memory = empty_matrices(right, has_rows(me) ? rows_.size() : 0, count);
    const at::Tensor block = memory.narrow(-1, 0, count);  // all rows of these features
    Boxes boxes;
    for (int rank = 0; rank < group_.size() && has_rows(me); ++rank) {
      if (rank == me) continue;
      for (const Run& run : runs_of(rows_, rank)) boxes.receive(block.narrow(-2, run.global, run.count), rank);
      if (!has_rows(rank)) continue;
      for (const Run& run : runs_of(rows_, me)) boxes.send(mine.narrow(-2, run.local, run.count), rank);
    }
    boxes.exchange(group_);
    if (!has_rows(me)) return;
    for (const Run& run : runs_of(rows_, me))
      block.narrow(-2, run.global, run.count).copy_(mine.narrow(-2, run.local, run.count));
    multiply_into(out.narrow(-1, begin, count), left, block);
  });
  return out;
}

at::Tensor RowProducts::tn(const at::Tensor& left, const at::Tensor& right) const {
  const int me = group_.rank();
  const at::Tensor out = empty_matrices(right, rows_.size(me), right.size(-1));
  const int64_t bytes = bytes_of_index(right, rows_.size());
  at::Tensor memory;
  for_each_chunk(right.size(-1), bytes, [&](int64_t begin, int64_t count) {
    const int64_t elements = bytes / right.element_size() * count;
    if (!memory.defined()) memory = at::empty({elements}, out.options());
    // Each rank's rows of this rank's summand, as one block.
    std::vector<int64_t> counts;
    std::vector<at::Tensor> blocks;
    int64_t offset = 0;
    for (int rank = 0; rank < group_.size(); ++rank) {
      std::vector<int64_t> sizes = right.sizes().vec();
      sizes[sizes.size() - 2] = rows_.size(rank);
      sizes[sizes.size() - 1] = count;
      counts.push_back(bytes_of_index(right, rows_.size(rank)) / right.element_size() * count);
      blocks.push_back(memory.narrow(0, offset, counts.back()).view(sizes));
      offset += counts.back();
      for (const Run& run : runs_of(rows_, rank))
        multiply_into(blocks.back().narrow(-2, run.local, run.count),
                      left.narrow(-1, run.global, run.count).transpose(-2, -1), right.narrow(-1, begin, count));
    }
    const at::Tensor& mine = blocks[static_cast<size_t>(me)];
    group_.reduce_scatter(as_buffer(memory.narrow(0, 0, elements)), as_buffer(mine), counts);
    out.narrow(-1, begin, count).copy_(mine);
  });
  return out;
}

}  // namespace adjoin::linalg
