#pragma once

#include <nlohmann/json_fwd.hpp>

#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// Sets the fields of rotary positions to what a config.json says: in transformers 5 "rope_parameters", in 4 "rope_theta" and
/// "rope_scaling". In a file with both, "rope_scaling" counts, as in transformers.
/// Throws: InvalidArgument for a kind of scaling that is not supported
void read_rotary(const nlohmann::ordered_json& config, Configuration& into);

/// Writes them as both versions of transformers read them.
void write_rotary(const Configuration& configuration, nlohmann::ordered_json& config);

}  // namespace adjoin::train
