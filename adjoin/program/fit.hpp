#pragma once

#include "adjoin/program/graph.hpp"

namespace adjoin::program {

/// A number as a tensor without dims: Long, Double or Bool.
at::Tensor as_tensor(const c10::IValue& number);
/// The same as one that does not promote types, as Python passes it: `x + 1` is add.Tensor.
at::Tensor number_as_tensor(const c10::IValue& number);

/// Makes of an argument what its operator takes, as Python does: numbers become tensors, a number a list, whole numbers reals. Values
/// are checked when they are there.
/// Throws: InvalidArgument for an argument of another type
void fit(const c10::Argument& wanted, Argument& argument);

}  // namespace adjoin::program
