#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/nn/parameter.hpp"

namespace adjoin::parallel {

/// A buffer over a tensor's elements, or the real and imaginary parts of complex ones, which backends add up and move alike.
Buffer buffer_of_reals(const at::Tensor& tensor);

/// Gives the ranks of a parameter's layout, which all call, what the first of them holds: where each has drawn values itself.
void broadcast_piece(const nn::Parameter& parameter);

/// Gives every rank the parameters and buffers that a module has on rank 0 of a group, which all call with modules of the
/// same tensors. For modules of one's own whose weights each rank has drawn itself.
/// Cost: a broadcast a tensor
void broadcast_parameters(const torch::nn::Module& module, const Communicator& group);

/// Checks that the copies of each parameter are equal on all workers that hold them, by a hash of their bytes. Called by all
/// workers of the parameters' grids; `who` begins the message.
/// Cost:   reads every parameter once, and an all-reduce of 16 bytes a parameter in each group of copies
/// Throws: InvalidArgument, on all workers that hold the copies, that names the first parameter whose copies differ
void check_copies(const std::vector<nn::Parameter>& parameters, const std::string& who);

/// Checks that all ranks of a group have the same parameters and buffers, by name, shape, type and whether they are trained.
/// Called by all of them; `who` begins the message.
/// Throws: InvalidArgument, on all ranks, that names the first that differs
void check_same_module(const std::vector<nn::Parameter>& parameters, const std::string& who, const Communicator& group);

/// Makes a module's buffers equal on all ranks of a group, which all call: those of floating point, such as running means, become
/// the mean weighted by each rank's `share` of the samples, others those of rank `first`.
/// Cost: an all-reduce of 8 bytes an element, and a broadcast of the others
void join_buffers(const torch::nn::Module& module, double share, int first, const Communicator& group);

}  // namespace adjoin::parallel
