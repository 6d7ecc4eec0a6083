#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace adjoin::train {

/// What a safetensors file says of one tensor before its data.
struct TensorEntry {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
};

/// A tensor's entry and the range of its bytes, [begin, end), counted from the end of the header.
struct StoredTensor : TensorEntry {
  int64_t begin = 0, end = 0;
};

/// The JSON header of a safetensors file.
struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

/// The format's name of a type: "F32". Throws: InvalidArgument for a type that the format lacks
std::string_view safetensors_type(at::ScalarType type);

/// Bytes of a tensor's data.
/// Throws: InvalidArgument for a type that the format lacks, a negative size, or a product beyond 2^63 - 1.
int64_t bytes_of(const TensorEntry& entry);

/// Reads a header for `data_bytes` bytes of data and checks all of it: JSON, names, types, shapes, and that the offsets cover
/// the data without holes or overlaps. It uses memory in proportion to the text.
/// Throws: InvalidArgument that says what is wrong (without the file's name, which the caller knows).
/// Source: the format's description, https://github.com/huggingface/safetensors
SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes);

/// The header for tensors whose data follow each other in the given order. It is padded with spaces so that the data begin at a
/// multiple of 64 in the file.
std::string make_safetensors_header(const std::vector<TensorEntry>& entries,
                                    const std::map<std::string, std::string>& metadata);

}  // namespace adjoin::train
