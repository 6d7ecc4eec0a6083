#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/nn/parameter.hpp"

namespace adjoin::parallel {

/// Parameters of one element type whose copies the same workers hold, and which travel in one message.
///
/// A packed bucket is a flat tensor: the shards (adjoin::sharded) of the first worker, one behind another, then those of the
/// next. A single tensor is packed as it lies, without a copy. Functions take a tensor of each parameter from which the
/// buckets were made, shaped like it, and use those of their own.
class Bucket {
 public:
  Bucket(const std::vector<nn::Parameter>& parameters, std::vector<size_t> members);

  const Communicator& copies() const { return copies_; }
  /// The elements of each worker's shards.
  const std::vector<int64_t>& sizes() const { return sizes_; }

  at::Tensor pack(const std::vector<at::Tensor>& tensors) const;
  void unpack(const at::Tensor& packed, const std::vector<at::Tensor>& tensors) const;
  /// This worker's shards of a packed bucket.
  at::Tensor mine(const at::Tensor& packed) const;
  /// Puts each of them, flat, in the place of its tensor.
  void take_shards(const at::Tensor& packed, std::vector<at::Tensor>& tensors) const;

 private:
  struct Shard {
    size_t parameter;
    Range range;  // of the parameter's elements
  };

  std::vector<size_t> members_;
  Communicator copies_;
  std::vector<Shard> shards_;  // of all members, for each worker
  std::vector<int64_t> sizes_;
};

/// The buckets of those parameters that require gradients and of which there are other copies: of each large one by itself, and
/// of small ones together.
std::vector<Bucket> buckets_of(const std::vector<nn::Parameter>& parameters);

/// Whether a parameter is trained: it is no buffer and requires gradients.
bool is_trained(const nn::Parameter& parameter);

/// Which elements of a piece, row by row, are the shard of one of the workers that hold copies of it.
Range shard_of(const at::Tensor& piece, int worker, int workers);

}  // namespace adjoin::parallel
