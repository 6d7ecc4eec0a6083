#include "adjoin/store/npy.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <numeric>
#include <regex>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/store/output_file.hpp"

namespace adjoin::train {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kUnit = 64;  // in which NumPy pads a header
constexpr int64_t kMostHeader = 4096;

/// Types by NumPy's names, without the byte order.
constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> kNumpyTypes{{{"b1", at::kBool},
                                                                                   {"u1", at::kByte},
                                                                                   {"i1", at::kChar},
                                                                                   {"i2", at::kShort},
                                                                                   {"i4", at::kInt},
                                                                                   {"i8", at::kLong},
                                                                                   {"f2", at::kHalf},
                                                                                   {"f4", at::kFloat},
                                                                                   {"f8", at::kDouble},
                                                                                   {"c16", at::kComplexDouble}}};

/// What a header says: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
struct Header {
  at::ScalarType type = at::kFloat;
  bool is_fortran = false;
  std::vector<int64_t> shape = {};
};

Header parsed(const std::string& text, const std::string& file) {
  static const std::regex form(
      R"(\{'descr': '([<>|=])([a-z]\d+)', 'fortran_order': (True|False), 'shape': \(([\d, ]*)\),? ?\}\s*)");
  std::smatch parts;
  require(std::regex_match(text, parts, form),
          [&] { return file + ": its header is of another form than NumPy writes for numbers"; });
  Header header{.is_fortran = parts[3] == "True"};
  const std::string name = parts[2];
  const auto* type = std::ranges::find(kNumpyTypes, name, [](const auto& known) { return known.first; });
  require(type != kNumpyTypes.end() && parts[1] != ">", [&] {
    return file + ": its numbers are of NumPy's type " + parts[1].str() + name + ", which is not supported";
  });
  header.type = type->second;
  const std::string shape = parts[4];
  for (const std::string_view size : items_of(shape))
    if (!size.empty()) header.shape.push_back(number_from<int64_t>(size, file + ": a size"));
  return header;
}

/// The number of elements, if the file's bytes are as many as they need.
bool fills(const Header& header, int64_t bytes) {
  int64_t count = static_cast<int64_t>(c10::elementSize(header.type));
  for (const int64_t size : header.shape)
    if (__builtin_mul_overflow(count, size, &count)) return false;
  return count == bytes;
}

}  // namespace

at::Tensor read_npy(const std::filesystem::path& path) {
  const std::string name = path.string();
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
  require(file.is_open() && !error, [&] { return name + ": cannot be read"; });
  std::array<unsigned char, 8> begin{};
  file.read(reinterpret_cast<char*>(begin.data()), begin.size());
  require(file && std::memcmp(begin.data(), kMagic.data(), kMagic.size()) == 0 && begin[6] >= 1 && begin[6] <= 3,
          [&] { return name + ": is no .npy file"; });
  const size_t width = begin[6] == 1 ? 2 : 4;
  std::array<unsigned char, 4> length{};
  file.read(reinterpret_cast<char*>(length.data()), static_cast<std::streamsize>(width));
  const int64_t header_bytes = length[0] + 256 * (length[1] + 256 * (length[2] + int64_t{256} * length[3]));
  const int64_t first = static_cast<int64_t>(begin.size() + width) + header_bytes;
  require(file && first <= bytes && header_bytes <= kMostHeader,
          [&] { return name + ": its header is cut short, or longer than NumPy's"; });
  std::string text(static_cast<size_t>(header_bytes), '\0');
  file.read(text.data(), header_bytes);
  const Header header = parsed(text, name);
  require(fills(header, bytes - first), [&] {
    return name + ": expected as many bytes as its shape (" + joined(header.shape) + ") needs, got " +
           std::to_string(bytes - first);
  });
  std::vector<int64_t> sizes = header.shape;
  if (header.is_fortran) sizes.assign(header.shape.rbegin(), header.shape.rend());
  const bool is_bool = header.type == at::kBool;  // whose bytes must be 0 or 1
  at::Tensor tensor = at::empty(sizes, is_bool ? at::kByte : header.type);
  file.read(static_cast<char*>(tensor.mutable_data_ptr()), bytes - first);
  require(bool(file), [&] { return name + ": cannot be read"; });
  if (is_bool) tensor = tensor.ne(0);
  if (!header.is_fortran) return tensor;
  std::vector<int64_t> dims(sizes.size());
  std::iota(dims.rbegin(), dims.rend(), int64_t{0});
  return tensor.permute(dims).contiguous();
}

void write_npy(const std::filesystem::path& path, const at::Tensor& tensor) {
  const at::Tensor plain = (tensor.scalar_type() == at::kBFloat16 ? tensor.to(at::kFloat) : tensor).cpu().contiguous();
  const auto* type =
      std::ranges::find(kNumpyTypes, plain.scalar_type(), [](const auto& known) { return known.second; });
  require(type != kNumpyTypes.end(), [&] { return path.string() + ": NumPy has no numbers of this type"; });
  const bool has_order = c10::elementSize(type->second) > 1;
  std::string header = std::string("{'descr': '") + (has_order ? "<" : "|") + std::string(type->first) +
                       "', 'fortran_order': False, 'shape': (" + joined(plain.sizes()) +
                       (plain.dim() == 1 ? ",), }" : "), }");
  const size_t before = kMagic.size() + 4;
  header.append(kUnit - 1 - (before + header.size()) % kUnit, ' ').append("\n");
  write_atomically(path, [&](OutputFile& file) {
    const std::array<char, 4> version_and_length{1, 0, static_cast<char>(header.size() % 256),
                                                 static_cast<char>(header.size() / 256)};
    file.write(kMagic);
    file.write(version_and_length.data(), version_and_length.size());
    file.write(header);
    file.write(plain.const_data_ptr(), plain.nbytes());
  });
}

}  // namespace adjoin::train
