#pragma once

#include <torch/nn/init.h>

#include <cstdint>

#include "adjoin/nn/parameter.hpp"

/// Initial values by the names of torch::nn::init, for a parameter on any layout. The global tensor is the same in every
/// layout, as its numbers depend on the seed, the parameter's full name and the global place alone. Each worker fills its own
/// piece; nothing is sent. Fans are counted from the global shape as torch::nn does, also for transposed convolutions.
///
///     for (const nn::Parameter& p : nn::parameters_of(*net))
///       if (p.layout.dims() > 1) nn::init::kaiming_uniform_(p, seed);
namespace adjoin::nn::init {

using torch::nn::init::FanModeType;
using torch::nn::init::NonlinearityType;

/// Throws: InvalidArgument for a parameter that is not floating-point; so do all functions below
void uniform_(const Parameter& parameter, uint64_t seed, double low = 0, double high = 1);
void normal_(const Parameter& parameter, uint64_t seed, double mean = 0, double std = 1);

/// Normal numbers within [low, high], by the inverse of their distribution function.
/// Throws: InvalidArgument unless low < high and std > 0
void trunc_normal_(const Parameter& parameter, uint64_t seed, double mean = 0, double std = 1, double low = -2,
                   double high = 2);

/// Variance 2 gain² / (fan in + fan out). Throws: InvalidArgument for fewer than two dims
/// Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010
void xavier_uniform_(const Parameter& parameter, uint64_t seed, double gain = 1);
void xavier_normal_(const Parameter& parameter, uint64_t seed, double gain = 1);

/// Variance gain² / fan, with the gain of the nonlinearity; `a` is its slope below 0.
/// Throws: InvalidArgument for fewer than two dims
/// Source: He, Zhang, Ren, Sun, "Delving deep into rectifiers", arXiv 1502.01852
void kaiming_uniform_(const Parameter& parameter, uint64_t seed, double a = 0, FanModeType mode = torch::kFanIn,
                      NonlinearityType nonlinearity = torch::kLeakyReLU);
void kaiming_normal_(const Parameter& parameter, uint64_t seed, double a = 0, FanModeType mode = torch::kFanIn,
                     NonlinearityType nonlinearity = torch::kLeakyReLU);

/// The matrix [dim 0, all other dims] gets orthonormal columns (rows, if there are fewer of them), times `gain`.
///
/// Made from normal numbers by the Gram-Schmidt process, done twice for each vector, which keeps |Q^T Q - I| at the rounding of
/// float64 (Giraud, Langou, Rozložník, "The loss of orthogonality in the Gram-Schmidt process", 2005). Each worker computes the
/// whole matrix in this library's own loops, so all get the same bits, whatever library or processor they have.
/// Cost:   8 n m² operations on one core of each worker, for m vectors of n numbers, and the whole matrix in float64
/// Throws: InvalidArgument for fewer than two dims
void orthogonal_(const Parameter& parameter, uint64_t seed, double gain = 1);

}  // namespace adjoin::nn::init
