#include "adjoin/lab/trace/trace_file.hpp"

#include <zlib.h>

#include <array>
#include <string_view>

#include "adjoin/base/error.hpp"
#include "adjoin/base/not_copied.hpp"
#include "adjoin/lab/trace/events.hpp"

namespace adjoin::lab {
namespace {

/// The bytes of a gzip file, compressed while its text arrives in pieces.
class GzipText : NotCopied {
 public:
  GzipText() {
    constexpr int kLevel = 3, kGzip = MAX_WBITS + 16, kMemory = 8;  // level 6 takes twice as long and saves a tenth
    if (deflateInit2(&stream_, kLevel, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
      throw InternalError("zlib cannot begin to compress");
  }
  ~GzipText() { deflateEnd(&stream_); }

  /// `flush`: Z_FINISH after the last piece.
  void add(std::string_view text, int flush = Z_NO_FLUSH) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream_.avail_in = static_cast<uInt>(text.size());
    std::array<char, 1 << 14> out;
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(out.data());
      stream_.avail_out = static_cast<uInt>(out.size());
      if (::deflate(&stream_, flush) == Z_STREAM_ERROR) throw InternalError("zlib cannot compress");
      bytes_.append(out.data(), out.size() - stream_.avail_out);
    } while (stream_.avail_out == 0);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  z_stream stream_{};
  std::string bytes_;
};

}  // namespace

std::string trace_file(std::vector<TracedRank> ranks) {
  const std::vector<TracedHost> hosts = put_on_one_clock(ranks);
  GzipText file;
  write_trace_events(ranks, hosts, [&](std::string_view text) { file.add(text); });
  file.add({}, Z_FINISH);
  return file.bytes();
}

}  // namespace adjoin::lab
