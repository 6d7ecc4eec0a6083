#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin::linalg {

/// The products of matmul.hpp, without autograd and of arguments that have been checked.
///
/// Each goes in rounds, of which one's elements are kept: so the memory beside the result is one block of a chunk. The
/// blocks of peers are received where they are multiplied from, straight out of the peers' tensors.
class RowProducts {
 public:
  RowProducts(Communicator group, Split rows, std::optional<int64_t> chunk);

  at::Tensor nt(const at::Tensor& left, const at::Tensor& right) const;
  at::Tensor nn(const at::Tensor& left, const at::Tensor& right) const;
  at::Tensor tn(const at::Tensor& left, const at::Tensor& right) const;

 private:
  /// Calls `round(begin, count)` for chunks of `size` indices, each of which takes `bytes` of a block.
  template <class Round>
  void for_each_chunk(int64_t size, int64_t bytes, const Round& round) const;
  bool has_rows(int rank) const { return rows_.size(rank) > 0; }

  Communicator group_;
  Split rows_;
  std::optional<int64_t> chunk_;
};

}  // namespace adjoin::linalg
