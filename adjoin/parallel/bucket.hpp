#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/nn/parameter.hpp"

namespace adjoin::parallel {

/// Parameters of one element type whose copies are on the same workers, and which are sent in one message.
///
/// A packed bucket is a flat tensor: the shards (adjoin::sharded) of the first worker, one after another, then those of the
/// next. A single tensor is packed as it is stored, without a copy. The functions take one tensor for each parameter from which
/// all buckets were made, with its shape, and use those of this bucket's parameters. In a bucket that is not cut each worker's
/// shard is all there is.
class Bucket {
 public:
  Bucket(const std::vector<nn::Parameter>& parameters, std::vector<size_t> members, bool is_cut = true);

  /// The indices of its parameters.
  const std::vector<size_t>& members() const { return members_; }
  const Communicator& copies() const { return copies_; }
  /// The number of elements in each worker's shards, and in this worker's.
  const std::vector<int64_t>& sizes() const { return sizes_; }
  int64_t size_here() const { return sizes_[static_cast<size_t>(place())]; }
  bool is_cut() const { return is_cut_; }

  at::Tensor pack(const std::vector<at::Tensor>& tensors) const;
  void unpack(const at::Tensor& packed, const std::vector<at::Tensor>& tensors) const;
  /// This worker's shards of a packed bucket.
  at::Tensor mine(const at::Tensor& packed) const;
  /// The parts of this worker's shards, one after another, for whose parameters `holds` or not.
  struct Run {
    int64_t elements = 0;
    bool holds = false;
  };
  std::vector<Run> runs_of(const std::function<bool(size_t)>& holds) const;
  /// Replaces each tensor by this worker's shard of it, flat.
  void take_shards(const at::Tensor& mine, std::vector<at::Tensor>& tensors) const;

 private:
  /// Views of the parts of contiguous tensors that a packed tensor has, in its order.
  std::vector<at::Tensor> parts_of(const std::vector<at::Tensor>& tensors) const;
  struct Shard {
    size_t parameter;
    Range range;  // range of the parameter's elements
  };

  int place() const { return is_cut_ ? copies_.rank() : 0; }

  std::vector<size_t> members_;
  Communicator copies_;
  bool is_cut_;
  std::vector<Shard> shards_;  // of all members, worker by worker
  std::vector<int64_t> sizes_;
};

/// The buckets of trained parameters: each large one has its own bucket, small ones of equal `kind` share buckets. Those
/// for which `is_cut` is false, which then goes with the kind, are in buckets that are not cut.
std::vector<Bucket> buckets_of(const std::vector<nn::Parameter>& parameters,
                               const std::function<int(const nn::Parameter&)>& kind = nullptr,
                               const std::function<bool(const nn::Parameter&)>& is_cut = nullptr);

/// The real and imaginary parts of a complex tensor as elements of their own, in the same memory; another tensor as it is.
/// Optimizers work on them, as those of PyTorch do.
at::Tensor reals_of(const at::Tensor& tensor);
nn::Parameter reals_of(nn::Parameter parameter);
/// The other way: flat real elements as a tensor of this shape, complex or not, in the same memory.
at::Tensor of_reals(const at::Tensor& flat, const std::vector<int64_t>& shape, bool is_complex);

/// Whether a parameter is trained: it is not a buffer and requires gradients.
bool is_trained(const nn::Parameter& parameter);

}  // namespace adjoin::parallel
