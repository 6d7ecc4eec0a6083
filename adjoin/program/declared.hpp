#pragma once

#include "adjoin/program/graph.hpp"
#include "adjoin/program/read_json.hpp"

// What a file declares of tensors and of numbers. All throw InvalidArgument for other forms.

namespace adjoin::program {

/// The type of elements that a file names by a number. Throws: InvalidArgument for one that is not supported
at::ScalarType element_type(const Json& number);

/// {"as_int": 4}, or {"as_expr": {"expr_str": "Symbol('s77', …)", "hint": {"as_int": 3}}}.
Size size_of(const Json& json);

TensorSpec tensor_spec(const Json& json);

/// The sizes of the example; none where the file does not say one of them.
std::optional<std::vector<int64_t>> example_sizes(const TensorSpec& spec);
/// Numbers, and symbols of sizes that may change: "3", "s77".
std::vector<std::string> size_texts(const TensorSpec& spec);
/// "Float [3, s77]".
std::string to_string(const TensorSpec& spec);

}  // namespace adjoin::program
