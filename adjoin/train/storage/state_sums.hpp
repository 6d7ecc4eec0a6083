#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/train/storage/safetensors.hpp"

namespace adjoin::train {

/// The sums of several tensors, each modulo 2^64.
using Sums = std::vector<uint64_t>;

/// What all workers of a group have counted, added up.
Sums added_up(const Sums& mine, const Communicator& group);

/// The checksum of a tensor: `counted`, the checksum() of its elements, and a hash of its name, type and shape.
uint64_t sum_of(const TensorEntry& entry, uint64_t counted);

/// The sums of tensors as they stand in the metadata of their file: "checksum.NAME" in 16 hexadecimal digits.
Metadata metadata_of(const std::map<std::string, uint64_t>& sums);

/// The sums that a file tells: of all its tensors, or none in a file of earlier versions.
/// Throws: DamagedFile where it tells those of others
std::map<std::string, uint64_t> sums_of(const SafetensorsFile& file, const std::filesystem::path& path);

/// Throws: DamagedFile where the checksum() of a tensor's elements does not make the sum that its file tells
void check_sum(const std::filesystem::path& path, const TensorEntry& entry, uint64_t counted, uint64_t expected);

/// Reads all tensors of a file and compares them with the sums that it tells. Throws: DamagedFile
void verify_sums(const SafetensorsFile& file, const std::filesystem::path& path);

}  // namespace adjoin::train
