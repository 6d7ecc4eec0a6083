#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "adjoin/store/output_file.hpp"
#include "adjoin/store/safetensors_header.hpp"

namespace adjoin::train {

using Metadata = std::map<std::string, std::string>;

/// A file that is not as it was when it was written.
class DamagedFile : public InvalidArgument {
  using InvalidArgument::InvalidArgument;
};

/// A safetensors file open for reading. Opening checks the whole header against the file's size, before it allocates anything
/// of a size that the header claims. Several threads may read.
/// Throws: DamagedFile, in all functions, with one line that names the file and what is wrong.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(std::filesystem::path path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  /// The shapes of all tensors, by their names.
  std::map<std::string, std::vector<int64_t>> shapes() const;
  bool contains(const std::string& name) const { return tensors_.contains(name); }
  const std::vector<int64_t>& shape(const std::string& name) const { return find(name).shape; }
  at::ScalarType dtype(const std::string& name) const { return find(name).dtype; }
  const Metadata& metadata() const { return metadata_; }
  const std::filesystem::path& path() const { return path_; }

  /// Its type and shape, and where its bytes are.
  const StoredTensor& find(const std::string& name) const;
  at::Tensor read(const std::string& name) const;
  /// Reads bytes from `begin` on, which is counted as in StoredTensor.
  void read_bytes(void* into, int64_t bytes, int64_t begin) const;
  /// The offset of the tensors' bytes in the file.
  int64_t data_begin() const { return data_begin_; }
  /// Throws: DamagedFile where a byte of a BOOL is neither 0 nor 1
  void check_booleans(const at::Tensor& tensor, const std::string& name) const;

 private:
  void read_at(void* into, int64_t bytes, int64_t offset) const;
  [[noreturn]] void refuse(const std::string& what) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t data_begin_ = 0;
  std::map<std::string, StoredTensor> tensors_;
  Metadata metadata_;
};

/// Makes a file with the header for these tensors, in ascending order of their names, and with its final length; the data are
/// not written yet. It need not be on the disk yet.
/// Throws: InvalidArgument for names used twice and types that the format lacks; IoError where the disk refuses, also where it
///         has no room
void make_safetensors(const std::filesystem::path& path, std::vector<TensorEntry> entries,
                      const Metadata& metadata = {});

/// Writes a file of whole tensors, which gets its name when all of it is on the disk. One process calls it.
/// Throws: InvalidArgument as make_safetensors; IoError
void write_safetensors(const std::filesystem::path& path, const std::map<std::string, at::Tensor>& tensors,
                       const Metadata& metadata = {});

/// A file from make_safetensors that is filled with its tensors, also by several processes, each with a part.
/// Throws: IoError; DamagedFile as SafetensorsFile
class SafetensorsFilling {
 public:
  explicit SafetensorsFilling(const std::filesystem::path& path);
  /// Writes elements of a tensor, beginning at global index `first`. Throws: InvalidArgument where the tensor has fewer
  /// elements
  void write(const std::string& name, int64_t first, const void* elements, int64_t count);
  /// Returns when what was written is on the disk.
  void sync() { file_.sync(); }

 private:
  SafetensorsFile header_;
  OutputFile file_;
};

}  // namespace adjoin::train
