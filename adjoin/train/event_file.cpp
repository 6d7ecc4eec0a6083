#include "adjoin/train/event_file.hpp"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

#include "adjoin/lab/machine.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kPolynomial = 0x82f63b78;  // of CRC32C, reversed
constexpr uint32_t kMask = 0xa282ead8;        // crc32c::Mask of TensorFlow's core/lib/hash/crc32c.h
constexpr size_t kBuffered = 1 << 20;
constexpr const char* kNamePart = "tfevents";  // TensorBoard recognises its files by it

constexpr auto kTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    table[byte] = value;
  }
  return table;
}();

template <class Number>
void append(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// Protocol buffers: a field begins with its number and wire type (protobuf.dev/programming-guides/encoding).
constexpr char kVarint = 0, k64Bits = 1, kBytes = 2, k32Bits = 5;

void append_tag(std::string& bytes, int field, char type) {
  bytes += static_cast<char>(field << 3 | type);
}

void append_varint(std::string& bytes, uint64_t number) {
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  bytes += static_cast<char>(number);
}

void append_bytes(std::string& bytes, int field, std::string_view content) {
  append_tag(bytes, field, kBytes);
  append_varint(bytes, content.size());
  bytes += content;
}

std::string event(double wall_time, int64_t step) {
  std::string bytes;
  append_tag(bytes, 1, k64Bits);
  append(bytes, wall_time);
  append_tag(bytes, 2, kVarint);
  append_varint(bytes, static_cast<uint64_t>(step));
  return bytes;
}

uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + kMask;
}

void append_record(std::string& file, std::string_view content) {
  std::string length;
  append(length, uint64_t{content.size()});
  file += length;
  append(file, masked_crc(length));
  file += content;
  append(file, masked_crc(content));
}

/// "train/loss": the part of the data under the name that runs use, and the key.
std::string tag_of(const std::string& kind, const std::string& key) {
  return (kind == "step" ? "train" : kind == "evaluation" ? "test" : kind) + "/" + key;
}

void append_line(std::string& file, const MetricsLine& line, double wall_time) {
  std::string summary;
  for (const auto& [key, value] : line.numbers) {
    std::string scalar;
    append_bytes(scalar, 1, tag_of(line.kind, key));
    append_tag(scalar, 2, k32Bits);
    append(scalar, static_cast<float>(value));
    append_bytes(summary, 1, scalar);
  }
  std::string bytes = event(wall_time, line.step);
  append_bytes(bytes, 5, summary);
  append_record(file, bytes);
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Calls `use` with each complete line of a file.
template <class Function>
void for_each_line(const fs::path& path, Function use) {
  std::ifstream file(path);
  MetricsLine line;
  for (std::string text; std::getline(file, text);)
    if (read_metrics_line(text, line)) use(line);
}

double seconds_of(const MetricsLine& line) {
  return line.kind == "step" ? line.number("step_seconds", 0) : 0;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

EventFile::EventFile(const fs::path& folder, const fs::path& metrics) {
  const double time = now();
  double left = 0;  // seconds of the steps from a line to the last line
  for_each_line(metrics, [&](const MetricsLine& line) { left += seconds_of(line); });
  on_disk([&] { fs::create_directories(folder); });
  char name[64];
  std::snprintf(name, sizeof name, "events.out.%s.%010.0f.", kNamePart, time);
  const fs::path path = folder / (name + this_machine().host + "." + std::to_string(::getpid()));
  write_atomically(path, [&](OutputFile& file) {
    std::string records, version = event(time - left, 0);
    append_bytes(version, 3, "brain.Event:2");
    append_record(records, version);
    for_each_line(metrics, [&](const MetricsLine& line) {
      left -= seconds_of(line);
      append_line(records, line, time - left);
      if (records.size() < kBuffered) return;
      file.write(records);
      records.clear();
    });
    file.write(records);
  });
  on_disk([&] {
    std::vector<fs::path> earlier;
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path() != path && entry.path().filename().string().find(kNamePart) != std::string::npos)
        earlier.push_back(entry.path());
    for (const fs::path& file : earlier) fs::remove(file);
  });
  file_.emplace(path, OutputFile::Mode::append);
}

void EventFile::add(const MetricsLine& line) {
  std::string records;
  append_line(records, line, now());
  file_->write(records);
}

}  // namespace adjoin::train
