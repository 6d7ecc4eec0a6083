#pragma once

#include <torch/nn/init.h>

#include <cstdint>

#include "adjoin/nn/parameter.hpp"

/// Initial values by the names of torch::nn::init, of a parameter on any layout: the same global tensor in every one, as
/// numbers depend on the seed, the parameter's full name and the place in the global tensor. Each worker fills its piece;
/// nothing is sent. Fans are counted as torch::nn counts them, of the global shape, also of transposed convolutions.
///
///     for (const nn::Parameter& p : nn::parameters_of(*net))
///       if (p.layout.dims() > 1) nn::init::kaiming_uniform_(p, seed);
namespace adjoin::nn::init {

using torch::nn::init::FanModeType;
using torch::nn::init::NonlinearityType;

/// Throws: InvalidArgument for a parameter that is not of floats (so do all)
void uniform_(const Parameter& parameter, uint64_t seed, double low = 0, double high = 1);
void normal_(const Parameter& parameter, uint64_t seed, double mean = 0, double std = 1);

/// Normal numbers, but none outside [low, high], by the inverse of their distribution.
/// Throws: InvalidArgument unless low < high and std > 0
void trunc_normal_(const Parameter& parameter, uint64_t seed, double mean = 0, double std = 1, double low = -2,
                   double high = 2);

/// Variance 2 gain² / (fan in + fan out). Throws: InvalidArgument for fewer than two dims
/// Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010
void xavier_uniform_(const Parameter& parameter, uint64_t seed, double gain = 1);
void xavier_normal_(const Parameter& parameter, uint64_t seed, double gain = 1);

/// Variance gain² / fan, with the gain of the nonlinearity, of which `a` is the slope below 0.
/// Throws: InvalidArgument for fewer than two dims
/// Source: He, Zhang, Ren, Sun, "Delving deep into rectifiers", arXiv 1502.01852
void kaiming_uniform_(const Parameter& parameter, uint64_t seed, double a = 0, FanModeType mode = torch::kFanIn,
                      NonlinearityType nonlinearity = torch::kLeakyReLU);
void kaiming_normal_(const Parameter& parameter, uint64_t seed, double a = 0, FanModeType mode = torch::kFanIn,
                     NonlinearityType nonlinearity = torch::kLeakyReLU);

/// The matrix [dim 0, all other dims] gets orthonormal columns, or rows where those are fewer, times `gain`.
///
/// Of normal numbers by Gram and Schmidt's process, done twice for each vector, which keeps |Q^T Q - I| at the rounding of
/// float64 (Giraud, Langou, Rozložník, "The loss of orthogonality in the Gram-Schmidt process", 2005). Each worker does all
/// of it in loops of its own, so all get the same bits, whatever library or processor they have.
/// Cost:   8 n m² operations on one core of each worker, for m vectors of n numbers, and the whole matrix in float64
/// Throws: InvalidArgument for fewer than two dims
void orthogonal_(const Parameter& parameter, uint64_t seed, double gain = 1);

}  // namespace adjoin::nn::init
