#pragma once

#include <filesystem>
#include <vector>

#include "adjoin/nn/parameter.hpp"
#include "adjoin/program/program.hpp"

namespace adjoin::program {

/// Writes a safetensors file with what Python's module has in its state_dict, under all its names:
///
///     model.load_state_dict(safetensors.torch.load_file("trained.safetensors"))
///
/// If the path ends in ".pt2", it is the program's file with these weights instead, in the types that it had, which torch.export.load
/// and load_program read. The program's own file must still be there.
///
/// Of a program that was distributed, all workers of its grid call it, and each writes its pieces. A .pt2 file the first one makes of
/// what all have written beside it, one record after another.
/// Throws: IoError where the disk refuses, on all workers alike; InvalidArgument for a type that the format lacks
void save_state(const Program& net, const std::filesystem::path& path);
/// The same from pieces of its weights and buffers, such as `parallel::Pipelined::parameters` of a program cut into stages.
void save_state(const Program& net, const std::vector<nn::Parameter>& pieces, const std::filesystem::path& path);

}  // namespace adjoin::program
