#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
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

  /// The indices of its parameters.
  const std::vector<size_t>& members() const { return members_; }
  const Communicator& copies() const { return copies_; }
  /// The elements of each worker's shards, and of this worker's.
  const std::vector<int64_t>& sizes() const { return sizes_; }
  int64_t size_here() const { return sizes_[static_cast<size_t>(copies_.rank())]; }

  at::Tensor pack(const std::vector<at::Tensor>& tensors) const;
  void unpack(const at::Tensor& packed, const std::vector<at::Tensor>& tensors) const;
  /// This worker's shards of a packed bucket.
  at::Tensor mine(const at::Tensor& packed) const;
  /// Puts each of this worker's shards, flat, in the place of its tensor.
  void take_shards(const at::Tensor& mine, std::vector<at::Tensor>& tensors) const;

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

/// The buckets of parameters that are trained: of each large one by itself, and of small ones of one `kind` together.
std::vector<Bucket> buckets_of(const std::vector<nn::Parameter>& parameters,
                               const std::function<int(const nn::Parameter&)>& kind = nullptr);

/// Whether a parameter is trained: it is no buffer and requires gradients.
bool is_trained(const nn::Parameter& parameter);

}  // namespace adjoin::parallel
