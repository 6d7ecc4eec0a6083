#include "adjoin/store/piece_runs.hpp"

#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <string>
#include <vector>

#include "adjoin/movement/linear_map.hpp"

namespace adjoin::train {

Range share_of(const nn::Parameter& piece) {
  const int rank = piece.grid.world().rank();
  const GridShape& shape = piece.layout.grid();
  if (!shape.cell_of(rank)) return {0, 0};
  std::vector<std::string> axes = piece.layout.axes(Kind::copied);
  for (const std::string& axis : piece.layout.axes(Kind::replicated)) axes.push_back(axis);
  const std::vector<int> equal = shape.ranks_along(rank, axes);
  const int64_t mine = std::find(equal.begin(), equal.end(), rank) - equal.begin();
  const int64_t elements = piece.tensor.numel(), workers = std::ssize(equal);
  return {elements * mine / workers, elements * (mine + 1) / workers};
}

void visit_runs(const nn::Parameter& piece, const Range& part, const std::function<void(const Run&)>& visit) {
  const auto cell = piece.layout.grid().cell_of(piece.grid.world().rank());
  if (!cell || part.size() == 0) return;
  Run run;
  const auto flush = [&] {
    if (run.count > 0) visit(run);
  };
  piece.layout.visit_runs(*cell, [&](int64_t local, int64_t global, int64_t count) {
    const int64_t begin = std::max(local, part.begin), end = std::min(local + count, part.end);
    if (begin >= end) return;
    const Run next{begin, global + begin - local, end - begin};
    if (run.count > 0 && next.local == run.local + run.count && next.global == run.global + run.count) {
      run.count += next.count;
      return;
    }
    flush();
    run = next;
  });
  flush();
}

nn::Parameter in_pairs(nn::Parameter piece) {
  piece.tensor = at::view_as_real(piece.tensor.detach().resolve_conj());
  piece.layout = with_pairs(piece.layout);
  return piece;
}

nn::Parameter piece_in_file(const nn::Parameter& piece, at::ScalarType stored) {
  return piece.tensor.is_complex() && !at::isComplexType(stored) ? in_pairs(piece) : piece;
}

}  // namespace adjoin::train
