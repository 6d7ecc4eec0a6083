#include "examples/support/idx.hpp"

#include <ATen/ops/empty.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <system_error>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/data/gzip_failure.hpp"

namespace adjoin::example {
namespace {

namespace fs = std::filesystem;

constexpr uint8_t kUnsignedBytes = 0x08;
constexpr int64_t kChunk = 1 << 20;

/// The type of the file at a path, not_found if there is none. Throws: IoError where that is unknown, as for a link to itself
fs::file_type type_of(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::none) throw IoError(path.string() + ": " + error.message());
  return type;
}

/// A file that is decompressed while it is read, if it is compressed.
class IdxFile {
 public:
  explicit IdxFile(const std::string& path) : path_(path), file_(nullptr, gzclose) {
    const fs::file_type type = type_of(path);
    require(type != fs::file_type::directory, [&] { return path + ": is a folder; expected an IDX file"; });
    require(type == fs::file_type::regular || type == fs::file_type::not_found,  // reading a pipe could wait forever
            [&] { return path + ": expected an IDX file, this is not a file"; });
    errno = 0;
    file_.reset(gzopen(path.c_str(), "rb"));
    require(file_ != nullptr, [&] { return path + ": cannot open: " + std::strerror(errno); });
  }

  /// Reads `count` bytes, or fewer at the end of the file.
  int64_t read(uint8_t* bytes, int64_t count) {
    const int got = gzread(file_.get(), bytes, static_cast<unsigned>(count));
    if (const std::string failure = data::gzip_failure(file_.get(), path_); !failure.empty()) fail(failure);
    return got;
  }

  /// Reads a number of four bytes, the most significant first.
  uint32_t number() {
    std::array<uint8_t, 4> bytes{};
    if (read(bytes.data(), 4) < 4) fail("expected a header of IDX, got a file that is too short");
    uint32_t value = 0;
    for (const uint8_t byte : bytes) value = value << 8 | byte;
    return value;
  }

  [[noreturn]] void fail(const std::string& what) const { throw InvalidArgument(path_ + ": " + what); }

 private:
  std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

std::vector<int64_t> read_dims(IdxFile& file) {
  const uint32_t magic = file.number();
  if (magic >> 16 != 0) file.fail("is not an IDX file: it does not begin with two zeros");
  if ((magic >> 8 & 0xff) != kUnsignedBytes)
    file.fail("expected unsigned bytes (type 8), got type " + std::to_string(magic >> 8 & 0xff));
  std::vector<int64_t> dims;
  for (uint32_t dim = 0; dim < (magic & 0xff); ++dim) dims.push_back(file.number());
  return dims;
}

int64_t elements_of(const IdxFile& file, const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t size : dims) {
    if (size > 0 && count > std::numeric_limits<int64_t>::max() / size) file.fail("its dims are too large");
    count *= size;
  }
  return count;
}

/// The file of that name, or of that name with .gz.
std::string either_of(const std::string& folder, const std::string& name) {
  const std::string plain = (fs::path(folder) / name).string(), zipped = plain + ".gz";
  if (type_of(plain) != fs::file_type::not_found) return plain;
  require(type_of(zipped) != fs::file_type::not_found,
          [&] { return folder + ": expected a file " + name + " or " + name + ".gz, there is none"; });
  return zipped;
}

}  // namespace

at::Tensor load_idx(const std::string& path) {
  IdxFile file(path);
  const std::vector<int64_t> dims = read_dims(file);
  const int64_t count = elements_of(file, dims);
  std::vector<uint8_t> bytes;
  for (int64_t have = 0, got = 1; have < count && got > 0; have += got) {
    const int64_t wanted = std::min(kChunk, count - have);
    bytes.resize(static_cast<size_t>(have + wanted));
    got = file.read(bytes.data() + have, wanted);
    bytes.resize(static_cast<size_t>(have + got));
  }
  const auto have = static_cast<int64_t>(bytes.size());
  if (have < count)
    file.fail("expected " + std::to_string(count) + " bytes behind the header, got " + std::to_string(have));
  uint8_t more = 0;
  if (file.read(&more, 1) > 0) file.fail("expected " + std::to_string(count) + " bytes behind the header, got more");
  const at::Tensor elements = at::empty(dims, at::kByte);
  if (count > 0) std::memcpy(elements.mutable_data_ptr(), bytes.data(), bytes.size());
  return elements;
}

LabelledPictures load_mnist(const std::string& folder) {
  const LabelledPictures data{load_idx(either_of(folder, "t10k-images-idx3-ubyte")),
                              load_idx(either_of(folder, "t10k-labels-idx1-ubyte"))};
  const bool fits = data.pictures.dim() == 3 && data.labels.dim() == 1 && data.pictures.size(0) == data.labels.size(0);
  require(fits, [&] {
    return folder + ": expected pictures [n, height, width] and labels [n], got " +
           std::to_string(data.pictures.dim()) + " and " + std::to_string(data.labels.dim()) + " dims, " +
           std::to_string(data.pictures.dim() > 0 ? data.pictures.size(0) : 0) + " pictures and " +
           std::to_string(data.labels.dim() > 0 ? data.labels.size(0) : 0) + " labels";
  });
  require(data.labels.numel() == 0 || data.labels.max().item<int64_t>() <= 9, [&] {
    return folder + ": expected labels from 0 to 9, got " + std::to_string(data.labels.max().item<int64_t>());
  });
  return data;
}

}  // namespace adjoin::example
