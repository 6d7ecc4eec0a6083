#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin::linalg {

/// The products of matmul.hpp, without autograd and for arguments that have been checked.
///
/// Each product works in rounds, and only one round's elements are kept: so the memory besides the result is one block of a
/// chunk. The blocks of peers are received, straight from the peers' tensors, into the memory in which they are multiplied.
/// Where rounds overlap, the next round's elements travel while this one is multiplied: then there are two blocks.
class RowProducts {
 public:
  RowProducts(Communicator group, Split rows, std::optional<int64_t> chunk);

  at::Tensor nt(const at::Tensor& left, const at::Tensor& right) const;
  at::Tensor nn(const at::Tensor& left, const at::Tensor& right) const;
  at::Tensor tn(const at::Tensor& left, const at::Tensor& right) const;

 private:
  /// A chunk of the indices, and which of the two blocks it uses.
  struct Round {
    int64_t begin = 0, count = 0;
    size_t block = 0;
  };

  /// The chunks of `size` indices, where each index takes `bytes` of a block.
  std::vector<Round> rounds_of(int64_t size, int64_t bytes) const;
  /// Runs these rounds with in_rounds.
  template <class Begin, class End>
  void run_rounds(const std::vector<Round>& rounds, const std::function<void()>& first, const Begin& begin,
                  const End& end) const;
  bool has_rows(int rank) const { return rows_.size(rank) > 0; }

  Communicator group_;
  Split rows_;
  std::optional<int64_t> chunk_;
};

}  // namespace adjoin::linalg
