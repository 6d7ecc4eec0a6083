#include "adjoin/store/safetensors.hpp"

#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin::train {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data are little-endian");

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kLargestHeader = 100'000'000;

}  // namespace

SafetensorsFile::SafetensorsFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) refuse(std::string("cannot be opened: ") + std::strerror(errno));
  try {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) refuse("is not a regular file");
    const auto file_bytes = static_cast<int64_t>(status.st_size);
    if (file_bytes < kLengthBytes)
      refuse("is too short for a safetensors file (" + std::to_string(file_bytes) + " bytes)");
    uint64_t length = 0;
    read_at(&length, kLengthBytes, 0);
    if (length > static_cast<uint64_t>(std::min(file_bytes - kLengthBytes, kLargestHeader)))
      refuse("claims a header of " + std::to_string(length) + " bytes in a file of " + std::to_string(file_bytes) +
             " (at most 100000000 are allowed)");
    std::string text(length, '\0');
    read_at(text.data(), static_cast<int64_t>(length), kLengthBytes);
    data_begin_ = kLengthBytes + static_cast<int64_t>(length);
    SafetensorsHeader header = parse_safetensors_header(text, file_bytes - data_begin_);
    for (StoredTensor& tensor : header.tensors) tensors_.emplace(tensor.name, std::move(tensor));
    metadata_ = std::move(header.metadata);
  } catch (const InvalidArgument& error) {
    ::close(descriptor_);
    const std::string what = error.what();
    throw DamagedFile(what.starts_with(path_.string()) ? what : path_.string() + ": " + what);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  ::close(descriptor_);
}

std::map<std::string, std::vector<int64_t>> SafetensorsFile::shapes() const {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& [name, tensor] : tensors_) shapes.emplace(name, tensor.shape);
  return shapes;
}

at::Tensor SafetensorsFile::read(const std::string& name) const {
  const StoredTensor& stored = find(name);
  at::Tensor tensor = at::empty(stored.shape, stored.dtype);
  read_bytes(tensor.mutable_data_ptr(), stored.end - stored.begin, stored.begin);
  check_booleans(tensor, name);
  return tensor;
}

const StoredTensor& SafetensorsFile::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) refuse("holds no tensor named " + name);
  return found->second;
}

void SafetensorsFile::read_bytes(void* into, int64_t bytes, int64_t begin) const {
  read_at(into, bytes, data_begin_ + begin);
}

void SafetensorsFile::read_at(void* into, int64_t bytes, int64_t offset) const {
  auto* to = static_cast<char*>(into);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, to, static_cast<size_t>(bytes), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      refuse(got < 0 ? std::string("cannot be read: ") + std::strerror(errno) : "was truncated while it was read");
    to += got;
    offset += got;
    bytes -= got;
  }
}

void SafetensorsFile::check_booleans(const at::Tensor& tensor, const std::string& name) const {
  if (tensor.scalar_type() != at::kBool) return;  // in every other type all bit patterns are valid
  const auto* bytes = static_cast<const uint8_t*>(tensor.const_data_ptr());
  if (std::any_of(bytes, bytes + tensor.numel(), [](uint8_t byte) { return byte > 1; }))
    refuse("tensor " + name + ": a BOOL is neither 0 nor 1");
}

void SafetensorsFile::refuse(const std::string& what) const {
  throw DamagedFile(path_.string() + ": " + what);
}

void make_safetensors(const std::filesystem::path& path, std::vector<TensorEntry> entries, const Metadata& metadata) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  const std::string header = make_safetensors_header(entries, metadata);
  const uint64_t length = header.size();
  int64_t bytes = kLengthBytes + std::ssize(header);
  for (const TensorEntry& entry : entries) bytes += bytes_of(entry);
  OutputFile file(path);
  file.reserve(bytes);
  file.write(&length, sizeof length);
  file.write(header);
  file.close();
}

SafetensorsFilling::SafetensorsFilling(const std::filesystem::path& path)
    : header_(path), file_(path, OutputFile::Mode::fill) {}

void SafetensorsFilling::write(const std::string& name, int64_t first, const void* elements, int64_t count) {
  const StoredTensor& tensor = header_.find(name);
  const auto size = static_cast<int64_t>(c10::elementSize(tensor.dtype));
  require(first >= 0 && count >= 0 && first + count <= (tensor.end - tensor.begin) / size, [&] {
    return "safetensors: tensor " + name + " has too few elements to write " + std::to_string(count) +
           " from element " + std::to_string(first) + " on";
  });
  file_.write_at(elements, static_cast<size_t>(count * size), header_.data_begin() + tensor.begin + first * size);
}

void write_safetensors(const std::filesystem::path& path, const std::map<std::string, at::Tensor>& tensors,
                       const Metadata& metadata) {
  std::vector<TensorEntry> entries;
  for (const auto& [name, tensor] : tensors) entries.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  std::filesystem::path unfinished = path;
  unfinished += ".adjoin-new";
  make_safetensors(unfinished, entries, metadata);
  SafetensorsFilling file(unfinished);
  for (const auto& [name, tensor] : tensors) file.write(name, 0, tensor.contiguous().const_data_ptr(), tensor.numel());
  file.sync();
  publish_file(unfinished, path);
}

}  // namespace adjoin::train
