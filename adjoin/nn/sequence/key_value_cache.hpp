#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace adjoin::nn {

/// The keys and values of one sample's tokens so far, for this worker's heads. A layer keeps them so that the next tokens can
/// be computed alone. Without gradients.
class KeyValueCache {
 public:
  /// Has room for `capacity` tokens; the memory is allocated when the first tokens come.
  explicit KeyValueCache(int64_t capacity) : capacity_(capacity) {}

  int64_t tokens() const { return tokens_; }

  /// Adds tokens after those in the cache.
  /// Shape:  k and v [tokens, h, size]
  /// Throws: InvalidArgument where the room does not suffice
  void append(const at::Tensor& k, const at::Tensor& v);

  /// Causal attention of the last tokens to all tokens in the cache, like `attention` with all rows on one worker.
  /// Shape: q [tokens, heads, size], where `heads` is a multiple of the h key heads -> the same
  /// Cost:  memory: the scores, heads x q's tokens x all tokens
  at::Tensor attend(const at::Tensor& q, double scale) const;

 private:
  int64_t capacity_, tokens_ = 0;
  at::Tensor keys_, values_;  // [h, capacity, size]
};

}  // namespace adjoin::nn
