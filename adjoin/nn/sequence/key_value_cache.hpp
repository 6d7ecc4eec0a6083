#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace adjoin::nn {

/// The keys and values of one sample's tokens so far, of this worker's heads: what a layer keeps so that the tokens behind
/// them can be computed alone. Without gradients.
class KeyValueCache {
 public:
  /// Room for so many tokens, taken when the first come.
  explicit KeyValueCache(int64_t capacity) : capacity_(capacity) {}

  int64_t tokens() const { return tokens_; }

  /// Adds the tokens behind those that are there.
  /// Shape:  k and v [tokens, h, size]
  /// Throws: InvalidArgument where there is no room
  void append(const at::Tensor& k, const at::Tensor& v);

  /// Causal attention of the last tokens to all that are there, as `attention` with all rows on one worker.
  /// Shape: q [tokens, heads, size], with a multiple of the h heads of keys -> the same
  /// Cost:  memory: the scores, heads x q's tokens x all tokens
  at::Tensor attend(const at::Tensor& q, double scale) const;

 private:
  int64_t capacity_, tokens_ = 0;
  at::Tensor keys_, values_;  // [h, capacity, size]
};

}  // namespace adjoin::nn
