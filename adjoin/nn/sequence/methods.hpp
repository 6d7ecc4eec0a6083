#pragma once

#include "adjoin/nn/sequence/attention.hpp"

namespace adjoin::nn {

// The methods of attention(), of arguments that have been checked: q, k and v have heads of one size and a last dim that
// runs along memory, and `options.scale` is given.

at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Rows& rows,
                          const Communicator& group, const AttentionOptions& options);

at::Tensor gathered_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Rows& rows,
                              const Communicator& group, const AttentionOptions& options);

/// All rows on one worker are a ring of one.
at::Tensor ulysses_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Rows& rows,
                             const Communicator& group, const AttentionOptions& options);

}  // namespace adjoin::nn
