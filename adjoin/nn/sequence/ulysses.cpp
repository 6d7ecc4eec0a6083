#include "adjoin/movement/move.hpp"
#include "adjoin/nn/sequence/methods.hpp"

namespace adjoin::nn {

at::Tensor ulysses_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const TokenRows& rows,
                             const Communicator& group, const AttentionOptions& options) {
  const int64_t h = k.size(1);
  const Split by_rows = rows.split(), by_heads = Split::balanced(h, group.size(), 1),
              by_query_heads = Split::balanced(q.size(1), group.size(), 1, /*unit=*/q.size(1) / h);
  AttentionOptions here = options;
  here.first_head += by_query_heads.offset(group.rank());
  const at::Tensor my_q = all_to_all(q, group, by_rows, by_query_heads), my_k = all_to_all(k, group, by_rows, by_heads),
                   my_v = all_to_all(v, group, by_rows, by_heads);
  const at::Tensor y = attention_on_one_worker(my_q, my_k, my_v, rows.on_one_worker(), here);
  return all_to_all(y, group, by_query_heads, by_rows);
}

}  // namespace adjoin::nn
