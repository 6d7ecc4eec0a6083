#include "adjoin/movement/move.hpp"
#include "adjoin/nn/sequence/methods.hpp"
#include "adjoin/partition/grid.hpp"

namespace adjoin::nn {

at::Tensor ulysses_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Rows& rows,
                             const Communicator& group, const AttentionOptions& options) {
  const Grid grid(group, {{"sequence", group.size()}});
  const int64_t h = k.size(1), queries_each = q.size(1) / h;
  const Split by_rows = rows.split(), of_queries = Split::balanced(q.size(1), group.size(), 1, queries_each);
  // x cut by rows, or by heads.
  const auto layout = [&](const at::Tensor& x, const Split& split) {
    return Layout(grid.shape(), {rows.size(), x.size(1), x.size(2)}, {{split, {"sequence"}}});
  };
  const auto with_all_rows = [&](const at::Tensor& x, const Split& heads) {
    return move(x, layout(x, by_rows), layout(x, heads), grid);
  };
  const Split heads = Split::balanced(h, group.size(), 1);
  AttentionOptions here = options;
  here.first_head += of_queries.offset(group.rank());
  const at::Tensor my_q = with_all_rows(q, of_queries), my_k = with_all_rows(k, heads), my_v = with_all_rows(v, heads);
  std::optional<at::Tensor> y;
  if (my_k.size(1) > 0) y = whole_sample_attention(my_q, my_k, my_v, rows.on_one_worker(), here);
  if (!y) y = ring_attention(my_q, my_k, my_v, rows.on_one_worker(), Communicator(), here);
  return move(*y, layout(q, of_queries), layout(q, by_rows), grid);
}

}  // namespace adjoin::nn
