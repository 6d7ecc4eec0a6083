#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adjoin/nn/parameter.hpp"

namespace adjoin::parallel {

/// Groups of parameters, by their indices.
using Members = std::vector<std::vector<size_t>>;

/// Parameters of one type together up to `most_bytes`, a larger one alone, from the last to the first.
Members reversed_buckets(const std::vector<nn::Parameter>& trained, int64_t most_bytes);

/// What each module owns itself, of one type and with copies on the same ranks, with small neighbours up to `most_bytes`.
/// `parameters` are in the order of their modules.
Members units_of(const std::vector<nn::Parameter>& parameters, int64_t most_bytes);

/// Makes each parameter the only tensor of its memory, which has its elements in order.
/// Throws: InvalidArgument, which begins with `who`, with the names of two that are in one memory
void give_own_memory(const std::vector<nn::Parameter>& parameters, const std::string& who);

}  // namespace adjoin::parallel
