#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace caffe2::serialize {
class PyTorchStreamReader;
}

namespace adjoin::program {

/// The records of a .pt2 file, which is a zip archive. One thread reads at a time.
/// Throws: InvalidArgument, in all functions, with one line that names the file and what is wrong.
class Archive {
 public:
  /// Opens it, and checks that no record is longer than the file.
  explicit Archive(std::filesystem::path path);
  ~Archive();
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  bool contains(const std::string& record) const;
  std::vector<std::string> records() const;
  std::string text(const std::string& record) const;
  /// The length of a record.
  int64_t bytes_of(const std::string& record) const;
  /// Reads a record of `bytes` bytes.
  void read(const std::string& record, void* into, int64_t bytes) const;
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<caffe2::serialize::PyTorchStreamReader> reader_;
};

}  // namespace adjoin::program
