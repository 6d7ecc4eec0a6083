#include "adjoin/train/storage/safetensors.hpp"

#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin::train {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data are little-endian");

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kLargestHeader = 100'000'000;
constexpr int64_t kLongRun = 64 << 10;    // bytes in a row from which a read of their own pays
constexpr int64_t kReadAtOnce = 1 << 20;  // bytes of rows read together where runs are shorter

std::string shape_of(at::ScalarType dtype, at::IntArrayRef shape) {
  std::string text = std::string(c10::toString(dtype)) + " [";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

at::Tensor checked(const at::Tensor& tensor, const TensorEntry& entry) {
  require(tensor.scalar_type() == entry.dtype && tensor.sizes() == at::IntArrayRef(entry.shape), [&] {
    return "safetensors: tensor " + entry.name + " was announced as " + shape_of(entry.dtype, entry.shape) +
           " and is " + shape_of(tensor.scalar_type(), tensor.sizes());
  });
  return tensor.detach().cpu().contiguous();
}

std::vector<TensorEntry> in_writing_order(const std::vector<TensorEntry>& entries) {
  std::vector<TensorEntry> sorted;
  for (const size_t index : writing_order(entries)) sorted.push_back(entries[index]);
  return sorted;
}

int64_t product(at::IntArrayRef sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

std::vector<size_t> writing_order(const std::vector<TensorEntry>& entries) {
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return entries[a].name < entries[b].name; });
  return order;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorEntry>& entries,
                                     const Metadata& metadata)
    : entries_(in_writing_order(entries)), file_(path) {
  const std::string header = make_safetensors_header(entries_, metadata);
  const uint64_t length = header.size();
  file_.file().write(&length, sizeof length);
  file_.file().write(header);
}

void SafetensorsWriter::write(const at::Tensor& given) {
  require(next_ < entries_.size(), "safetensors: a tensor follows the last that was announced");
  const at::Tensor tensor = checked(given, entries_[next_++]);
  file_.file().write(tensor.const_data_ptr(), tensor.nbytes());
}

void SafetensorsWriter::publish() {
  require(next_ == entries_.size(),
          [&] { return "safetensors: tensor " + entries_[next_].name + " was announced and never came"; });
  file_.publish();
}

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
    read_bytes(&length, kLengthBytes, 0);
    if (length > static_cast<uint64_t>(std::min(file_bytes - kLengthBytes, kLargestHeader)))
      refuse("claims a header of " + std::to_string(length) + " bytes in a file of " + std::to_string(file_bytes) +
             " (at most 100000000 are allowed)");
    std::string text(length, '\0');
    read_bytes(text.data(), static_cast<int64_t>(length), kLengthBytes);
    data_begin_ = kLengthBytes + static_cast<int64_t>(length);
    SafetensorsHeader header = parse_safetensors_header(text, file_bytes - data_begin_);
    for (StoredTensor& tensor : header.tensors) tensors_.emplace(tensor.name, std::move(tensor));
    metadata_ = std::move(header.metadata);
  } catch (const InvalidArgument& error) {
    ::close(descriptor_);
    const std::string what = error.what();
    throw InvalidArgument(what.starts_with(path_.string()) ? what : path_.string() + ": " + what);
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
  read_bytes(tensor.mutable_data_ptr(), stored.end - stored.begin, data_begin_ + stored.begin);
  check_booleans(tensor, name);
  return tensor;
}

at::Tensor SafetensorsFile::read(const std::string& name, int64_t dim, int64_t begin, int64_t end) const {
  const StoredTensor& stored = find(name);
  const auto dims = static_cast<int64_t>(stored.shape.size());
  if (dim < 0 || dim >= dims || begin < 0 || begin > end || end > stored.shape[dim])
    refuse("tensor " + name + " " + shape_of(stored.dtype, stored.shape) + " has no indices " + std::to_string(begin) +
           " to " + std::to_string(end) + " along dim " + std::to_string(dim));
  std::vector<int64_t> shape = stored.shape;
  shape[dim] = end - begin;
  at::Tensor slice = at::empty(shape, stored.dtype);
  if (slice.numel() == 0) return slice;

  // A row is all that one index of the dims before `dim` holds; the slice takes one run of bytes from each row.
  const at::IntArrayRef sizes(stored.shape);
  const int64_t rows = product(sizes.slice(0, dim));
  const int64_t unit = product(sizes.slice(dim + 1)) * static_cast<int64_t>(c10::elementSize(stored.dtype));
  const int64_t row = unit * sizes[dim], run = unit * (end - begin), first = data_begin_ + stored.begin;
  auto* into = static_cast<char*>(slice.mutable_data_ptr());
  if (run == row) {
    read_bytes(into, rows * row, first);
  } else if (run >= kLongRun || row >= kReadAtOnce) {
    for (int64_t i = 0; i < rows; ++i) read_bytes(into + i * run, run, first + i * row + begin * unit);
  } else {
    const int64_t rows_at_once = kReadAtOnce / row;
    std::vector<char> chunk(std::min(rows, rows_at_once) * row);
    for (int64_t i = 0; i < rows; i += rows_at_once) {
      const int64_t count = std::min(rows_at_once, rows - i);
      read_bytes(chunk.data(), count * row, first + i * row);
      for (int64_t j = 0; j < count; ++j) std::memcpy(into + (i + j) * run, chunk.data() + j * row + begin * unit, run);
    }
  }
  check_booleans(slice, name);
  return slice;
}

const StoredTensor& SafetensorsFile::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) refuse("holds no tensor named " + name);
  return found->second;
}

void SafetensorsFile::read_bytes(void* into, int64_t bytes, int64_t offset) const {
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
  if (tensor.scalar_type() != at::kBool) return;  // every other type gives all bit patterns a meaning
  const auto* bytes = static_cast<const uint8_t*>(tensor.const_data_ptr());
  if (std::any_of(bytes, bytes + tensor.numel(), [](uint8_t byte) { return byte > 1; }))
    refuse("tensor " + name + ": a BOOL is neither 0 nor 1");
}

void SafetensorsFile::refuse(const std::string& what) const {
  throw InvalidArgument(path_.string() + ": " + what);
}

}  // namespace adjoin::train
