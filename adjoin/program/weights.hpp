#pragma once

#include <functional>
#include <map>
#include <string>

#include "adjoin/program/archive.hpp"

namespace adjoin::program {

/// Reads the tensors that a configuration in an archive describes, "data/weights/model_weights_config.json", by their names. Those
/// that are the same tensor in Python are the same here.
/// Throws: InvalidArgument for one whose sizes reach beyond its bytes, or that is stored as a Python object
/// Cost:   memory of the records, and again of those that are read in pieces
std::map<std::string, at::Tensor> read_tensors(const Archive& archive, const std::string& configuration);

/// Calls write(record, bytes) with each record of an archive, one after another, in which the tensors of that configuration have the values
/// that value(name) gives; one that is undefined stays as it is.
/// Throws: as read_tensors; InvalidArgument for a value of another shape
void for_each_record_with(const Archive& archive, const std::string& configuration,
                          const std::function<at::Tensor(const std::string& name)>& value,
                          const std::function<void(const std::string& record, const std::string& bytes)>& write);

}  // namespace adjoin::program
