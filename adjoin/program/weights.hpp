#pragma once

#include <map>
#include <string>

#include "adjoin/program/archive.hpp"

namespace adjoin::program {

/// Reads the tensors that a configuration in an archive describes, "data/weights/model_weights_config.json", by their names. Those
/// that are the same tensor in Python are the same here.
/// Throws: InvalidArgument for one whose sizes reach beyond its bytes, or that is stored as a Python object
/// Cost:   memory of the records, and again of those that are read in pieces
std::map<std::string, at::Tensor> read_tensors(const Archive& archive, const std::string& configuration);

/// The records of that configuration, in which the tensors of `tensors` have their new values, by the records' names.
/// Throws: as read_tensors
std::map<std::string, std::string> records_with(const Archive& archive, const std::string& configuration,
                                                const std::map<std::string, at::Tensor>& tensors);

}  // namespace adjoin::program
