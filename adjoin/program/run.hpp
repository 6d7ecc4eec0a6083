#pragma once

#include <ATen/core/stack.h>

#include <exception>
#include <string>
#include <vector>

#include "adjoin/program/graph.hpp"

namespace adjoin::program {

using Values = std::vector<c10::IValue>;

/// Pushes the arguments of a node on a stack; tensors are made on `device`.
/// Throws: InvalidArgument where a value is no tensor or no number and should be
void push_arguments(const Node& node, const Values& values, at::Device device, torch::jit::Stack& stack);

/// Leaves the results of an operator on the stack, those of a list one by one: at least as many as the node has.
/// Throws: InvalidArgument where it gave fewer, or a list of other length
void spread_results(const Node& node, torch::jit::Stack& stack);

/// Carries out a node that computes with sizes, whose arguments are on the stack.
c10::IValue run_numbers(const Node& node, const torch::jit::Stack& stack);

/// What LibTorch says, in one line.
std::string first_line_of(const std::exception& error);

/// Runs a graph whose inputs are in their slots; its outputs are then in theirs. All other values are freed after their last use.
/// Throws: Error that names the node and its module, where LibTorch refuses an operation; and what operations throw
void run(const Graph& graph, Values& values, at::Device device);

/// The value of an output.
c10::IValue output_value(const Argument& output, const Values& values);

}  // namespace adjoin::program
