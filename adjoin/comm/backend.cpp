#include "adjoin/comm/backend.hpp"

#include "adjoin/comm/algorithm/perform.hpp"

namespace adjoin {

using algorithm::perform;

namespace {

std::vector<int64_t> copy_of(std::span<const int64_t> counts) {
  return {counts.begin(), counts.end()};
}

}  // namespace

std::shared_ptr<Backend> Backend::for_thread(bool) {
  return shared_from_this();
}

void Backend::barrier() {
  perform({.collective = Collective::barrier, .size = size()}, "auto", *this, {}, {});
}

void Backend::broadcast(Buffer buffer, int root) {
  perform({.collective = Collective::broadcast, .size = size(), .root = root, .count = buffer.count}, "auto", *this, {},
          buffer);
}

void Backend::reduce(ConstBuffer in, Buffer out, Reduction reduction, int root) {
  out.type = in.type;  // where this rank is not the root nothing was given
  perform({.collective = Collective::reduce, .size = size(), .root = root, .count = in.count}, "auto", *this, in, out,
          reduction);
}

void Backend::all_reduce(Buffer buffer, Reduction reduction) {
  perform({.collective = Collective::all_reduce, .size = size(), .count = buffer.count}, "auto", *this, {}, buffer,
          reduction);
}

void Backend::gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root) {
  out.type = in.type;
  perform({.collective = Collective::gather, .size = size(), .root = root, .counts = copy_of(counts)}, "auto", *this,
          in, out);
}

void Backend::scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root) {
  perform({.collective = Collective::scatter, .size = size(), .root = root, .counts = copy_of(counts)}, "auto", *this,
          in, out);
}

void Backend::all_gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts) {
  perform({.collective = Collective::all_gather, .size = size(), .counts = copy_of(counts)}, "auto", *this, in, out);
}

void Backend::reduce_scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, Reduction reduction) {
  perform({.collective = Collective::reduce_scatter, .size = size(), .counts = copy_of(counts)}, "auto", *this, in, out,
          reduction);
}

void Backend::all_to_all(ConstBuffer in, std::span<const int64_t> send_counts, Buffer out,
                         std::span<const int64_t> receive_counts) {
  algorithm::perform_all_to_all("auto", *this, in, send_counts, out, receive_counts);
}

}  // namespace adjoin
