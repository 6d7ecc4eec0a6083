#include "adjoin/linalg/row_products.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "adjoin/linalg/local.hpp"
#include "adjoin/linalg/rounds.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::linalg {
namespace {

constexpr size_t kBlocks = 2;  // for rounds that overlap

/// Rows that are contiguous both in a part's piece and in the whole.
struct Run {
  int64_t local, global, count;
};

/// The runs of rows [begin, end) of the piece.
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

/// The bytes of one index of a matrix's dim, over the matrices of all leading dims, where the other dim has `others`
/// indices.
int64_t bytes_of_index(const at::Tensor& x, int64_t others) {
  int64_t matrices = 1;
  for (int64_t dim = 0; dim + 2 < x.dim(); ++dim) matrices *= x.size(dim);
  return matrices * others * x.element_size();
}

}  // namespace

RowProducts::RowProducts(Communicator group, Split rows, std::optional<int64_t> chunk)
    : group_(std::move(group)), rows_(std::move(rows)), chunk_(chunk) {}

std::vector<RowProducts::Round> RowProducts::rounds_of(int64_t size, int64_t bytes) const {
  std::vector<Round> rounds;
  if (size == 0) return rounds;
  const int64_t most = chunk_.value_or(automatic_chunk(bytes)), number = (size - 1) / most + 1;
  const bool overlap = rounds_overlap(group_);
  const int64_t step = chunk_ ? most : (size + number - 1) / number;
  for (int64_t begin = 0; begin < size; begin += step)
    rounds.push_back({begin, std::min(step, size - begin), overlap ? rounds.size() % kBlocks : 0});
  return rounds;
}

template <class Begin, class End>
void RowProducts::run_rounds(const std::vector<Round>& rounds, const std::function<void()>& first, const Begin& begin,
                             const End& end) const {
  in_rounds(
      group_, rounds.size(), first, [&](size_t i) { return begin(rounds[i]); }, [&](size_t i) { end(rounds[i]); });
}

at::Tensor RowProducts::nt(const at::Tensor& left, const at::Tensor& right) const {
  const int me = group_.rank();
  const at::Tensor out = empty_matrices(left, rows_.size(me), rows_.size());
  // Computes the columns for rows [begin, …) of a rank's right, which are in `block`.
  const auto fill = [&](int rank, int64_t begin, const at::Tensor& block) {
    for (const Run& run : runs_of(rows_, rank, begin, begin + block.size(-2)))
      multiply_into(out.narrow(-1, run.global, run.count), left,
                    block.narrow(-2, run.local - begin, run.count).transpose(-2, -1));
  };

  const std::vector<int64_t> sizes = rows_.sizes();
  const int64_t longest = *std::max_element(sizes.begin(), sizes.end());
  const int64_t bytes = group_.size() * bytes_of_index(right, right.size(-1));
  std::array<std::vector<at::Tensor>, kBlocks> memory, blocks;  // for each rank
  for (auto* of_ranks : {&memory[0], &memory[1], &blocks[0], &blocks[1]}) of_ranks->resize(sizes.size());
  const auto fetch = [&](const Round& round) -> Transfer {
    const auto of_rank = [&](int rank) { return std::clamp<int64_t>(rows_.size(rank) - round.begin, 0, round.count); };
    Boxes boxes;
    for (int rank = 0; rank < group_.size(); ++rank) {
      if (rank == me || !has_rows(rank) || !has_rows(me)) continue;
      at::Tensor& kept = memory[round.block][static_cast<size_t>(rank)];
      if (!kept.defined()) kept = empty_matrices(right, of_rank(rank), right.size(-1));
      at::Tensor& block = blocks[round.block][static_cast<size_t>(rank)];
      boxes.receive(block = kept.narrow(-2, 0, of_rank(rank)), rank);
      boxes.send(right.narrow(-2, std::min(round.begin, rows_.size(me)), of_rank(me)), rank);
    }
    return boxes;
  };
  const std::vector<Round> rounds = group_.size() == 1 ? std::vector<Round>() : rounds_of(longest, bytes);
  run_rounds(
      rounds, [&] { fill(me, 0, right); }, fetch,
      [&](const Round& round) {
        for (int rank = 0; rank < group_.size(); ++rank) {
          const at::Tensor& block = blocks[round.block][static_cast<size_t>(rank)];
          if (block.defined()) fill(rank, round.begin, block);
        }
      });
  return out;
}

at::Tensor RowProducts::nn(const at::Tensor& left, const at::Tensor& right) const {
  const int me = group_.rank();
  const at::Tensor out = empty_matrices(left, rows_.size(me), right.size(-1));
  std::array<at::Tensor, kBlocks> memory;
  const auto mine_of = [&](const Round& round) { return right.narrow(-1, round.begin, round.count); };
  // A block holds all rows of a round's features.
  const auto block_of = [&](const Round& round) { return memory[round.block].narrow(-1, 0, round.count); };
  const auto fetch = [&](const Round& round) -> Transfer {
    at::Tensor& kept = memory[round.block];
    if (!kept.defined()) kept = empty_matrices(right, has_rows(me) ? rows_.size() : 0, round.count);
    const at::Tensor mine = mine_of(round), block = block_of(round);
    Boxes boxes;
    for (int rank = 0; rank < group_.size() && has_rows(me); ++rank) {
      if (rank == me) continue;
      for (const Run& run : runs_of(rows_, rank)) boxes.receive(block.narrow(-2, run.global, run.count), rank);
      if (!has_rows(rank)) continue;
      for (const Run& run : runs_of(rows_, me)) boxes.send(mine.narrow(-2, run.local, run.count), rank);
    }
    return boxes;
  };
  run_rounds(rounds_of(right.size(-1), bytes_of_index(right, rows_.size())), {}, fetch, [&](const Round& round) {
    if (!has_rows(me)) return;
    const at::Tensor mine = mine_of(round), block = block_of(round);
    for (const Run& run : runs_of(rows_, me))
      block.narrow(-2, run.global, run.count).copy_(mine.narrow(-2, run.local, run.count));
    multiply_into(out.narrow(-1, round.begin, round.count), left, block);
  });
  return out;
}

at::Tensor RowProducts::tn(const at::Tensor& left, const at::Tensor& right) const {
  const int me = group_.rank();
  const at::Tensor out = empty_matrices(right, rows_.size(me), right.size(-1));
  const int64_t bytes = bytes_of_index(right, rows_.size());
  std::array<at::Tensor, kBlocks> memory, kept_of;  // the block, and the part of it that stays on this rank
  const auto multiply_and_send = [&](const Round& round) -> Transfer {
    const int64_t elements = bytes / right.element_size() * round.count;
    at::Tensor& block = memory[round.block];
    if (!block.defined()) block = at::empty({elements}, out.options());
    // Each rank's rows of this rank's summand, one rank after another.
    std::vector<int64_t> counts;
    int64_t offset = 0;
    for (int rank = 0; rank < group_.size(); ++rank) {
      std::vector<int64_t> sizes = right.sizes().vec();
      sizes[sizes.size() - 2] = rows_.size(rank);
      sizes[sizes.size() - 1] = round.count;
      counts.push_back(bytes_of_index(right, rows_.size(rank)) / right.element_size() * round.count);
      const at::Tensor rows = block.narrow(0, offset, counts.back()).view(sizes);
      offset += counts.back();
      for (const Run& run : runs_of(rows_, rank))
        multiply_into(rows.narrow(-2, run.local, run.count), left.narrow(-1, run.global, run.count).transpose(-2, -1),
                      right.narrow(-1, round.begin, round.count));
      if (rank == me) kept_of[round.block] = rows;
    }
    return [all = buffer(block.narrow(0, 0, elements)), mine = buffer(kept_of[round.block]),
            counts](const Communicator& group) { group.reduce_scatter(all, mine, counts); };
  };
  run_rounds(rounds_of(right.size(-1), bytes), {}, multiply_and_send,
             [&](const Round& round) { out.narrow(-1, round.begin, round.count).copy_(kept_of[round.block]); });
  return out;
}

}  // namespace adjoin::linalg
