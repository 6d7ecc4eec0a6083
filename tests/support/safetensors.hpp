#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "adjoin/train/storage/safetensors.hpp"

namespace adjoin::train {

/// Writes a safetensors file at once.
inline void write_safetensors(const std::filesystem::path& path, const std::map<std::string, at::Tensor>& tensors,
                              const Metadata& metadata = {}) {
  std::vector<TensorEntry> entries;
  for (const auto& [name, tensor] : tensors) entries.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  SafetensorsWriter file(path, entries, metadata);
  for (const auto& [name, tensor] : tensors) file.write(tensor);
  file.publish();
}

}  // namespace adjoin::train
