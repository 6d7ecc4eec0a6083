#pragma once

#include <filesystem>

#include "adjoin/program/program.hpp"

namespace adjoin::program {

/// Writes a safetensors file with what Python's module has in its state_dict, under all its names:
///
///     model.load_state_dict(safetensors.torch.load_file("trained.safetensors"))
///
/// Of a program that was distributed, all workers of its grid call it; the first one writes.
/// Throws: IoError where the disk refuses; InvalidArgument for a type that the format lacks
/// Cost:   an all-gather of each tensor that is cut, one after another; memory of all of them on the first worker
void save_state(const Program& net, const std::filesystem::path& path);

}  // namespace adjoin::program
