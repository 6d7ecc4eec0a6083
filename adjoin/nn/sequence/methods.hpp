#pragma once

#include "adjoin/nn/sequence/attention.hpp"

namespace adjoin::nn {

// The methods of attention(), of arguments that have been checked: q, k and v have heads of one size and a last dim that
// runs along memory, and `options.scale` is given.

at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Rows& rows,
                          const Communicator& group, const AttentionOptions& options);

at::Tensor gathered_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Rows& rows,
                              const Communicator& group, const AttentionOptions& options);

at::Tensor ulysses_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Rows& rows,
                             const Communicator& group, const AttentionOptions& options);

/// All rows are on this worker. Where each sample is there whole and in order, those of about equal length go through
/// LibTorch's kernel together; what that kernel cannot do, and numbers that are not finite, go by a ring of one.
at::Tensor attention_on_one_worker(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Rows& rows,
                                   const AttentionOptions& options);

}  // namespace adjoin::nn
