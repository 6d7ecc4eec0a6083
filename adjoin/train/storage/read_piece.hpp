#pragma once

#include "adjoin/nn/parameter.hpp"
#include "adjoin/train/storage/safetensors.hpp"

namespace adjoin::train {

/// Reads this worker's piece of a global tensor in a file into the piece's tensor: runs of it by themselves where they are long or
/// far apart, together with what is between them where that is less than 64 KiB. Returns the checksum() of the elements that
/// share_of gives this worker.
/// Throws: DamagedFile
uint64_t read_piece(const SafetensorsFile& file, const nn::Parameter& piece);

}  // namespace adjoin::train
