#pragma once

#include <ATen/core/Tensor.h>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin::nn {

/// The sum of the cross-entropy of samples. With weights of the classes, each sample's loss is multiplied by that of its class.
/// Shape: scores [samples, classes], labels [samples] int64, class_weights [classes] or none -> scalar, in float32 or
/// better
at::Tensor cross_entropy(const at::Tensor& scores, const at::Tensor& labels, const at::Tensor& class_weights = {});

/// The sum over rows of -log p(target), where each rank has the scores of its own words. Scores are not gathered: the ranks
/// compute each row's log-sum of exponentials together, and the rank that holds the target adds its score.
///
/// Shape:   scores [rows, words_r], targets [rows] int64, the same on every rank, -1 where a row has none -> scalar, in
///          float32 or better
/// Kinds:   split -> replicated
/// Adjoint: once differentiable; each rank computes the gradient of its own scores, nothing moves
/// Cost:    two all-reduces forward, one of a single number and one of two numbers a row. Kept for backward: the scores and one
///          number a row
/// Throws:  InvalidArgument on every rank for a target that is not a word, or shapes that do not fit
/// Source:  Shoeybi et al., arXiv 1909.08053, section 3
at::Tensor vocabulary_parallel_cross_entropy(const at::Tensor& scores, const at::Tensor& targets,
                                             const Communicator& group, const Split& words);

}  // namespace adjoin::nn
