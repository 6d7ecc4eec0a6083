#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin::linalg {

/// The products of matmul.hpp, without autograd and of arguments that have been checked.
///
/// Each goes in rounds, of which one's elements are kept: so the memory beside the result is one block of a chunk. The
/// blocks of peers are received where they are multiplied from, straight out of the peers' tensors. Where rounds overlap,
/// the next one's elements travel while this one is multiplied: there are two blocks.
class RowProducts {
 public:
  RowProducts(Communicator group, Split rows, std::optional<int64_t> chunk);

  at::Tensor nt(const at::Tensor& left, const at::Tensor& right) const;
  at::Tensor nn(const at::Tensor& left, const at::Tensor& right) const;
  at::Tensor tn(const at::Tensor& left, const at::Tensor& right) const;

 private:
  /// A chunk of the indices, and whether it uses the first block or the second.
  struct Round {
    int64_t begin = 0, count = 0;
    size_t block = 0;
  };

  /// The chunks of `size` indices, each of which takes `bytes` of a block.
  std::vector<Round> rounds_of(int64_t size, int64_t bytes) const;
  /// These rounds, by in_rounds.
  template <class Begin, class End>
  void carry_out(const std::vector<Round>& rounds, const std::function<void()>& first, const Begin& begin,
                 const End& end) const;
  bool has_rows(int rank) const { return rows_.size(rank) > 0; }

  Communicator group_;
  Split rows_;
  std::optional<int64_t> chunk_;
};

}  // namespace adjoin::linalg
