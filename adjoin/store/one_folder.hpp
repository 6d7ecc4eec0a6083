#pragma once

#include <filesystem>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::train {

/// Checks that the processes of an MPI job see the same output folder: rank 0, which holds it, writes a random name into a file
/// there, all ranks read it, and it is removed. All ranks call it.
/// Throws: InvalidArgument on all ranks where one sees another folder or none; IoError on rank 0
void check_one_folder(const std::filesystem::path& out, const Communicator& world);

}  // namespace adjoin::train
