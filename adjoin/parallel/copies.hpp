#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/nn/parameter.hpp"

namespace adjoin::parallel {

/// Another group of the same ranks, whose calls do not wait for those of the first. Called by all of them.
Communicator own_group(const Communicator& group);

/// Copies what the first rank of a parameter's layout holds to the other ranks, where each has drawn its own values. Called by
/// all ranks of the layout.
void broadcast_piece(const nn::Parameter& parameter);

/// Copies the parameters and buffers of a module on rank 0 of a group to every rank; all ranks call it with modules that have
/// the same tensors. For your own modules, whose weights each rank has drawn itself.
/// Cost: one broadcast per tensor
void broadcast_parameters(const torch::nn::Module& module, const Communicator& group);

/// Checks that the copies of each parameter are equal on all workers that hold them, by a hash of their bytes. Called by all
/// workers of the parameters' grids; `who` is the beginning of the error message.
/// Cost:   reads every parameter once, and in each group of copies an all-reduce of 16 bytes per parameter
/// Throws: InvalidArgument, on all workers that hold the copies, that names the first parameter whose copies differ
void check_copies(const std::vector<nn::Parameter>& parameters, const std::string& who);

/// Checks that all ranks of a group have the same parameters and buffers, with the same names, shapes and types, and train the
/// same ones. Called by all of them; `who` is the beginning of the error message.
/// Throws: InvalidArgument, on all ranks, that names the first one that differs
void check_same_module(const std::vector<nn::Parameter>& parameters, const std::string& who, const Communicator& group);

/// Makes a module's buffers equal on all ranks of a group, which all call it: floating-point buffers, such as running means,
/// become the mean weighted by each rank's `share` of the samples; others become those of rank `first`.
/// Cost: an all-reduce of 8 bytes per element, and a broadcast of the other buffers
void join_buffers(const torch::nn::Module& module, double share, int first, const Communicator& group);

}  // namespace adjoin::parallel
