#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "adjoin/store/safetensors.hpp"

namespace adjoin::train {

/// Writes a safetensors file at once.
inline void write_safetensors(const std::filesystem::path& path, const std::map<std::string, at::Tensor>& tensors,
                              const Metadata& metadata = {}) {
  std::vector<TensorEntry> entries;
  for (const auto& [name, tensor] : tensors) entries.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  make_safetensors(path, entries, metadata);
  SafetensorsFilling file(path);
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor flat = tensor.contiguous();
    file.write(name, 0, flat.const_data_ptr(), flat.numel());
  }
}

}  // namespace adjoin::train
