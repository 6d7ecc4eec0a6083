#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/store/safetensors.hpp"

namespace adjoin::train {

/// The sums of several tensors, each modulo 2^64.
using Sums = std::vector<uint64_t>;

/// The sums of all workers of a group, added up.
Sums added_up(const Sums& mine, const Communicator& group);

/// The checksum of a tensor: `counted` (the checksum() of its elements) plus a hash of its name, type and shape.
uint64_t sum_of(const TensorEntry& entry, uint64_t counted);

/// The sums of tensors in the form of their file's metadata: "checksum.NAME" with 16 hexadecimal digits.
Metadata metadata_of(const std::map<std::string, uint64_t>& sums);

/// The sums in a file's metadata: of all its tensors, or none in a file of earlier versions.
/// Throws: DamagedFile where they are those of other tensors
std::map<std::string, uint64_t> sums_of(const SafetensorsFile& file, const std::filesystem::path& path);

/// Throws: DamagedFile where the checksum() of a tensor's elements does not give the sum in its file
void check_sum(const std::filesystem::path& path, const TensorEntry& entry, uint64_t counted, uint64_t expected);

/// One number for a model's files: of their names, and of their tensors' names and sums as metadata have them. It is the same in
/// every layout. Two models that differ have the same with a probability of about 2^-50, unless somebody wants them to.
uint64_t hash_of_sums(const std::map<std::string, Metadata>& of_files);

/// Reads all tensors of a file and compares them with the sums in its metadata. Throws: DamagedFile
void verify_sums(const SafetensorsFile& file, const std::filesystem::path& path);

}  // namespace adjoin::train
