#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "adjoin/train/storage/output_file.hpp"
#include "adjoin/train/storage/safetensors_header.hpp"

namespace adjoin::train {

using Metadata = std::map<std::string, std::string>;

/// The order in which a SafetensorsWriter takes its tensors: ascending names.
std::vector<size_t> writing_order(const std::vector<TensorEntry>& entries);

/// A safetensors file that is written tensor by tensor, so that one at a time is in memory, beside its place until it is
/// complete.
/// Throws: InvalidArgument for names used twice, types that the format lacks, or a tensor unlike its entry; IoError for
///         the disk. The place is then as it was.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorEntry>& entries,
                    const Metadata& metadata = {});
  /// The next tensor in writing_order.
  void write(const at::Tensor& tensor);
  /// Puts the file into its place, after the last tensor.
  void publish();

 private:
  std::vector<TensorEntry> entries_;
  size_t next_ = 0;
  AtomicFile file_;
};

/// A safetensors file open for reading. Opening checks all of its header against the file's size before anything of
/// the size that it claims is allocated. Reading is safe from several threads.
/// Throws: InvalidArgument, everywhere, with one line that names the file and what is wrong.
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

  at::Tensor read(const std::string& name) const;
  /// Indices [begin, end) along `dim`.
  /// Cost: reads the slice alone when its runs of bytes are long, and the rows it lies in when they are short.
  at::Tensor read(const std::string& name, int64_t dim, int64_t begin, int64_t end) const;

 private:
  const StoredTensor& find(const std::string& name) const;
  void read_bytes(void* into, int64_t bytes, int64_t offset) const;
  void check_booleans(const at::Tensor& tensor, const std::string& name) const;
  [[noreturn]] void refuse(const std::string& what) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t data_begin_ = 0;
  std::map<std::string, StoredTensor> tensors_;
  Metadata metadata_;
};

}  // namespace adjoin::train
