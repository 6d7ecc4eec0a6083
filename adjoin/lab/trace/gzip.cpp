#include "adjoin/lab/trace/gzip.hpp"

#include <zlib.h>

#include <array>
#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin::lab {

struct GzipState {
  z_stream stream{};
};

GzipText::GzipText() : state_(std::make_unique<GzipState>()) {
  constexpr int kLevel = 3, kGzip = MAX_WBITS + 16, kMemory = 8;  // level 6 takes twice as long and saves a tenth
  if (deflateInit2(&state_->stream, kLevel, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
    throw InternalError("zlib cannot begin to compress");
}

GzipText::~GzipText() {
  deflateEnd(&state_->stream);
}

void GzipText::add(std::string_view text) {
  deflate(text, Z_NO_FLUSH);
}

std::string GzipText::finish() {
  deflate({}, Z_FINISH);
  return std::exchange(bytes_, {});
}

void GzipText::deflate(std::string_view text, int flush) {
  z_stream& stream = state_->stream;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  std::array<char, 1 << 14> out;
  do {
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    if (::deflate(&stream, flush) == Z_STREAM_ERROR) throw InternalError("zlib cannot compress");
    bytes_.append(out.data(), out.size() - stream.avail_out);
  } while (stream.avail_out == 0);
}

}  // namespace adjoin::lab
