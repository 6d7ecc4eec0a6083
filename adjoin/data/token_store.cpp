#include "adjoin/data/token_store.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"

namespace adjoin::data {
namespace {

/// Removes a part of mapped ids, and what the system has mapped around it, from this process's memory. If it is used again, it
/// comes from the system's cache or the disk.
template <class Number>
void forget(std::span<const Number> all, size_t first, size_t count) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t around = std::max<uintptr_t>(page, 1 << 16);  // Linux maps this much at a time
  const auto place = [&](size_t i) { return reinterpret_cast<uintptr_t>(all.data() + i); };
  const uintptr_t begin = std::max(place(first) / around * around, place(0) / page * page);
  const uintptr_t end = std::min((place(first + count) + around - 1) / around * around, place(all.size()));
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

template <class Number>
std::vector<int64_t> copied(std::span<const Number> all, size_t first, size_t count, bool forgets) {
  const auto ids = all.subspan(first, count);
  std::vector<int64_t> copy(ids.begin(), ids.end());
  if (forgets) forget(all, first, count);
  return copy;
}

}  // namespace

std::vector<int64_t> TokenStore::ids(int64_t sample) const {
  return run(begin(sample), length(sample), false);
}

std::vector<int64_t> TokenStore::ids(int64_t sample, int64_t first, int64_t count) const {
  return run(begin(sample) + first, count, arrays_.mapped);
}

std::vector<int64_t> TokenStore::run(int64_t first, int64_t count, bool forgets) const {
  const auto from = static_cast<size_t>(first), many = static_cast<size_t>(count);
  return arrays_.wide.empty() ? copied(arrays_.narrow, from, many, forgets) : copied(arrays_.wide, from, many, forgets);
}

std::vector<int64_t> TokenStore::lengths() const {
  std::vector<int64_t> lengths(static_cast<size_t>(size()));
  for (int64_t sample = 0; sample < size(); ++sample) lengths[static_cast<size_t>(sample)] = length(sample);
  return lengths;
}

void TokenStoreBuilder::add(std::span<const int64_t> ids, int64_t label) {
  if (narrow_)
    held_.narrow.insert(held_.narrow.end(), ids.begin(), ids.end());
  else
    held_.wide.insert(held_.wide.end(), ids.begin(), ids.end());
  held_.begins.push_back(held_.begins.back() + std::ssize(ids));
  held_.labels.push_back(static_cast<int32_t>(label));
}

TokenStore TokenStoreBuilder::finish() {
  held_.narrow.shrink_to_fit();
  held_.wide.shrink_to_fit();
  const auto held = std::make_shared<const Held>(std::exchange(held_, {}));
  return TokenStore({held->narrow, held->wide, held->begins, held->labels}, held);
}

TokenStore selected(const TokenStore& store, std::span<const int64_t> samples) {
  const bool wide = !store.arrays().wide.empty();
  TokenStoreBuilder builder(wide ? std::numeric_limits<int64_t>::max() : 0);
  for (const int64_t sample : samples) builder.add(store.ids(sample), store.label(sample));
  return builder.finish();
}

namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

constexpr size_t kPendingBytes = 1 << 20;
constexpr int64_t kVersion = 1;

struct Header {
  std::array<char, 8> magic{'a', 'd', 'j', 't', 'o', 'k', 'e', 'n'};
  int64_t version = kVersion;
  int64_t id_bytes = 0, tokens = 0, samples = 0, text_bytes = 0;
  uint64_t text_hash = 0;
  uint64_t header_hash = 0;  // of the header's bytes before it
};
static_assert(sizeof(Header) == 64);

uint64_t hash_of_header(const Header& header) {
  return hash_of(std::string_view(reinterpret_cast<const char*>(&header), offsetof(Header, header_hash)));
}

constexpr int64_t to_multiple_of_8(int64_t bytes) {
  return (bytes + 7) / 8 * 8;
}

/// The offsets of the parts of a file, in bytes, and its end.
struct Places {
  int64_t begins, labels, text, end;
};

Places places_of(const Header& h) {
  Places places{};
  places.begins = to_multiple_of_8(static_cast<int64_t>(sizeof(Header)) + h.id_bytes * h.tokens);
  places.labels = places.begins + 8 * (h.samples + 1);
  places.text = places.labels + 4 * h.samples;
  places.end = places.text + h.text_bytes;
  return places;
}

/// A whole mapped file; the system reads only the pages that are used.
class Mapping {
 public:
  explicit Mapping(const std::filesystem::path& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    require(descriptor >= 0, [&] { return path.string() + ": cannot be opened: " + std::strerror(errno); });
    struct stat status {};
    const bool is_file = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
    size_ = is_file ? static_cast<size_t>(status.st_size) : 0;
    if (size_ >= sizeof(Header)) begin_ = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0);
    if (begin_ != MAP_FAILED) ::madvise(begin_, size_, MADV_RANDOM);  // samples are read in random order: no read-ahead
    ::close(descriptor);
    require(size_ >= sizeof(Header), [&] { return path.string() + ": is too short for a token file"; });
    require(begin_ != MAP_FAILED, [&] { return path.string() + ": cannot be mapped: " + std::strerror(errno); });
  }
  ~Mapping() {
    if (begin_ != MAP_FAILED) ::munmap(begin_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  int64_t size() const { return static_cast<int64_t>(size_); }

  template <class Number>
  std::span<const Number> at(int64_t place, int64_t count) const {
    return {reinterpret_cast<const Number*>(static_cast<const char*>(begin_) + place), static_cast<size_t>(count)};
  }

 private:
  void* begin_ = MAP_FAILED;
  size_t size_ = 0;
};

/// Checks that a header is one of ours and that its numbers fit a file of this size.
void check_header(const Header& header, int64_t size, const std::string& path) {
  require(header.magic == Header{}.magic, [&] { return path + ": is not a token file"; });
  require(header.version == kVersion, [&] {
    return path + ": is a token file of version " + std::to_string(header.version) + ", expected " +
           std::to_string(kVersion);
  });
  const auto within = [&](int64_t count) { return count >= 0 && count <= size; };
  require(header.header_hash == hash_of_header(header) && (header.id_bytes == 2 || header.id_bytes == 4) &&
              within(header.tokens) && within(header.samples) && within(header.text_bytes),
          [&] { return path + ": the token file's header is damaged"; });
  require(places_of(header).end == size, [&] {
    return path + ": the token file has " + std::to_string(size) + " bytes, its header says " +
           std::to_string(places_of(header).end);
  });
}

void check_begins(std::span<const int64_t> begins, int64_t tokens, const std::string& path) {
  require(begins.front() == 0 && begins.back() == tokens && std::is_sorted(begins.begin(), begins.end()),
          [&] { return path + ": the token file's samples are not contiguous"; });
}

}  // namespace

TokenFileWriter::TokenFileWriter(std::filesystem::path place, int64_t words)
    : place_(std::move(place)), temporary_(place_.string() + ".XXXXXX"), narrow_(fits_narrow(words)) {
  descriptor_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
  if (descriptor_ < 0) fail("cannot be opened for writing");
  const Header later{};
  write(&later, sizeof later);
}

TokenFileWriter::~TokenFileWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void TokenFileWriter::add(std::span<const int64_t> ids, int64_t label) {
  append(ids);
  end_sample(label);
}

void TokenFileWriter::append(std::span<const int64_t> ids) {
  for (const int64_t id : ids) {
    const auto bits = static_cast<uint32_t>(id);  // its first bytes are those of the id's low 16 bits
    write(&bits, narrow_ ? 2 : 4);
  }
  tokens_ += std::ssize(ids);
}

void TokenFileWriter::end_sample(int64_t label) {
  begins_.push_back(tokens_);
  labels_.push_back(static_cast<int32_t>(label));
}

void TokenFileWriter::publish(std::string_view text) {
  Header header{.id_bytes = narrow_ ? 2 : 4,
                .tokens = begins_.back(),
                .samples = std::ssize(labels_),
                .text_bytes = std::ssize(text),
                .text_hash = hash_of(text)};
  header.header_hash = hash_of_header(header);
  const std::array<char, 8> zeros{};
  write(zeros.data(), static_cast<size_t>(places_of(header).begins - static_cast<int64_t>(sizeof header) -
                                          header.id_bytes * header.tokens));
  write(begins_.data(), 8 * begins_.size());
  write(labels_.data(), 4 * labels_.size());
  write(text.data(), text.size());
  flush();
  if (::pwrite(descriptor_, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header) ||
      ::fsync(descriptor_) != 0)
    fail("cannot be written");
  if (::rename(temporary_.c_str(), place_.c_str()) != 0) fail("cannot be moved into place");
  ::close(std::exchange(descriptor_, -1));
}

void TokenFileWriter::write(const void* data, size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  if (pending_.size() + bytes > kPendingBytes) flush();
  if (bytes > kPendingBytes) return write_out(from, bytes);
  pending_.insert(pending_.end(), from, from + bytes);
}

void TokenFileWriter::flush() {
  write_out(pending_.data(), pending_.size());
  pending_.clear();
}

void TokenFileWriter::write_out(const char* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t written = ::write(descriptor_, data + done, bytes - done);
    if (written > 0)
      done += static_cast<size_t>(written);
    else if (written == 0 || errno != EINTR)
      fail("cannot be written");
  }
}

void TokenFileWriter::fail(const char* what) const {
  throw IoError(place_.string() + ": " + what + ": " + std::strerror(errno));
}

TokenFile map_token_file(const std::filesystem::path& path) {
  const auto file = std::make_shared<const Mapping>(path);
  const Header header = file->at<Header>(0, 1).front();
  check_header(header, file->size(), path.string());
  const Places places = places_of(header);
  TokenStore::Arrays arrays{.begins = file->at<int64_t>(places.begins, header.samples + 1),
                            .labels = file->at<int32_t>(places.labels, header.samples),
                            .mapped = true};
  check_begins(arrays.begins, header.tokens, path.string());
  if (header.id_bytes == 2)
    arrays.narrow = file->at<uint16_t>(sizeof(Header), header.tokens);
  else
    arrays.wide = file->at<uint32_t>(sizeof(Header), header.tokens);
  const auto text = file->at<char>(places.text, header.text_bytes);
  std::string copy(text.begin(), text.end());
  require(hash_of(copy) == header.text_hash, [&] { return path.string() + ": the token file's text is damaged"; });
  return {TokenStore(arrays, file), std::move(copy)};
}

}  // namespace adjoin::data
