#pragma once

#include <string>

#include "adjoin/program/graph.hpp"

namespace adjoin::program {

/// The operator that "torch.ops.aten.add.Tensor" names, if a file may run it: those of aten that compute tensors from tensors, and
/// neither reach files or foreign memory nor depend on a library that adjoin does not use.
/// Throws: InvalidArgument for one that LibTorch lacks, or that no file may run
c10::OperatorHandle operator_named(const std::string& target);

/// "aten.add.Tensor", "aten.relu".
std::string short_name(const c10::OperatorHandle& handle);

/// The place of an argument of an operator, by its name; none where it has no such argument.
std::optional<size_t> place_of(const c10::OperatorHandle& handle, const char* argument);

/// The constant argument of this name, if the node's operator has one.
const c10::IValue* constant_of(const Node& node, const char* name);

/// How an operator runs on global tensors: "by a rule", "as its parts", "gathered"; without tensors, "on every rank".
std::string way_of(const c10::OperatorHandle& handle);

}  // namespace adjoin::program
