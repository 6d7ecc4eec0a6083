#pragma once

#include <ATen/core/ScalarType.h>

#include <optional>

#include "adjoin/parallel/optimizer.hpp"

namespace adjoin::parallel {

struct MuonOptions {
  double momentum = 0.95;
  std::optional<at::ScalarType> type = {};  ///< of the matrices while they are made orthogonal; by default the weight's
  AdamWOptions others = {};                 ///< for parameters that are no matrices
  bool in_order = false;  ///< products have the same bits for any number of threads (nn/fixed); float32 and bfloat16
};

/// Muon: a matrix (nn::Parameter::matrices) moves by its Nesterov momentum, made nearly orthogonal by five steps of
/// Newton and Schulz, times the learning rate and 0.2 sqrt(its larger side); so rate and weight decay, which is decoupled, mean the
/// same as for AdamW. Matrices have the moment "momentum". All other parameters are updated by AdamW.
///
/// A zero gradient moves nothing. A convolution's weight is the matrix [out, the rest].
/// Throws: InvalidArgument for a momentum outside [0, 1)
/// Cost:   20 m^2 n + 10 m^3 multiplications and additions for a matrix of m x n, m <= n, on one of the workers that hold parts
///         of it; each matrix is sent to it and back (WholeMatrices)
/// Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024; Liu et al., "Muon is scalable for
///         LLM training", arXiv 2502.16982
Rule muon(MuonOptions options = {});

}  // namespace adjoin::parallel
