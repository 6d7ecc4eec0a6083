#include "adjoin/store/state_sums.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "adjoin/base/checksum.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/base/text.hpp"

namespace adjoin::train {
namespace {

constexpr std::string_view kSum = "checksum.";
constexpr int64_t kVerifiedAtOnce = 1 << 20;  // bytes

/// The checksum() of a whole tensor.
uint64_t checksum_in(const SafetensorsFile& file, const StoredTensor& tensor, std::vector<char>& buffer) {
  const auto size = static_cast<int64_t>(c10::elementSize(tensor.dtype));
  uint64_t sum = 0;
  for (int64_t begin = tensor.begin; begin < tensor.end; begin += kVerifiedAtOnce) {
    const int64_t bytes = std::min(kVerifiedAtOnce, tensor.end - begin);
    file.read_bytes(buffer.data(), bytes, begin);
    sum += checksum(buffer.data(), bytes / size, size, (begin - tensor.begin) / size);
  }
  return sum;
}

}  // namespace

Sums added_up(const Sums& mine, const Communicator& group) {
  std::vector<int64_t> halves;  // 32-bit halves, whose sums over 2^31 ranks fit into 63 bits
  for (const uint64_t sum : mine) {
    halves.push_back(static_cast<int64_t>(sum & UINT32_MAX));
    halves.push_back(static_cast<int64_t>(sum >> 32));
  }
  group.all_reduce(buffer(halves));
  Sums all(mine.size());
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<uint64_t>(halves[2 * i]) + (static_cast<uint64_t>(halves[2 * i + 1]) << 32);
  return all;
}

uint64_t sum_of(const TensorEntry& entry, uint64_t counted) {
  std::string text = entry.name + " " + std::string(safetensors_type(entry.dtype));
  for (const int64_t size : entry.shape) text.append(" ").append(std::to_string(size));
  return counted + mix(hash_of(text));
}

Metadata metadata_of(const std::map<std::string, uint64_t>& sums) {
  Metadata metadata;
  for (const auto& [name, sum] : sums) metadata.emplace(std::string(kSum) + name, hexadecimal(sum));
  return metadata;
}

uint64_t hash_of_sums(const std::map<std::string, Metadata>& of_files) {
  std::string text;
  for (const auto& [file, metadata] : of_files) {
    text += file + '\n';
    for (const auto& [key, sum] : metadata)
      if (key.starts_with(kSum)) text += key + ' ' + sum + '\n';
  }
  return hash_of(text);
}

std::map<std::string, uint64_t> sums_of(const SafetensorsFile& file, const std::filesystem::path& path) {
  std::map<std::string, uint64_t> sums;
  for (const auto& [key, text] : file.metadata()) {
    if (!key.starts_with(kSum)) continue;
    const std::string name = key.substr(kSum.size());
    uint64_t sum = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum, 16);
    if (error != std::errc() || end != text.data() + text.size() || !file.contains(name))
      throw DamagedFile(path.string() + ": is damaged: it has a checksum of '" + name + "' but no such tensor");
    sums.emplace(name, sum);
  }
  for (const auto& [name, shape] : file.shapes())
    if (!sums.empty() && !sums.contains(name))
      throw DamagedFile(path.string() + ": tensor '" + name + "' is damaged: it has no checksum");
  return sums;
}

void check_sum(const std::filesystem::path& path, const TensorEntry& entry, uint64_t counted, uint64_t expected) {
  if (sum_of(entry, counted) != expected)
    throw DamagedFile(path.string() + ": tensor '" + entry.name +
                      "' is damaged: its numbers do not match its checksum");
}

void verify_sums(const SafetensorsFile& file, const std::filesystem::path& path) {
  std::vector<char> buffer(kVerifiedAtOnce);
  for (const auto& [name, expected] : sums_of(file, path)) {
    const StoredTensor& tensor = file.find(name);
    check_sum(path, tensor, checksum_in(file, tensor, buffer), expected);
  }
}

}  // namespace adjoin::train
