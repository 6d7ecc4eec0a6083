#include "adjoin/comm/arguments.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::arguments {

using algorithm::total_of;
using Counts = std::span<const int64_t>;

namespace {

std::string text(int64_t number) {
  return std::to_string(number);
}

void check_buffer(const Call& call, const char* role, ConstBuffer buffer) {
  if (buffer.count < 0) fail(call, std::string("a count of '") + role + "' that is not negative", text(buffer.count));
  if (buffer.count > 0 && !buffer.data)
    fail(call, std::string("memory for ") + text(buffer.count) + " elements of '" + role + "'", "a null pointer");
  if (buffer.device.kind != Device::Kind::cpu)
    fail(call, std::string("'") + role + "' on the CPU", "a buffer on another device");
}

void check_elements(const Call& call, const char* role, ConstBuffer buffer, int64_t count) {
  check_buffer(call, role, buffer);
  if (buffer.count != count) fail(call, text(count) + " elements of '" + role + "'", text(buffer.count));
}

void check_counts(const Call& call, const char* role, Counts counts) {
  if (std::ssize(counts) != call.size)
    fail(call, text(call.size) + " numbers in '" + role + "'", text(std::ssize(counts)));
  for (const int64_t count : counts)
    if (count < 0) fail(call, std::string("no negative number in '") + role + "'", text(count));
}

void check_same_type(const Call& call) {
  if (call.in.type != call.out.type)
    fail(call, "one element type of 'in' and 'out'",
         std::string(name(call.in.type)) + " and " + std::string(name(call.out.type)));
}

/// That no byte is of both.
void check_apart(const Call& call, ConstBuffer in, ConstBuffer out) {
  const auto begin = [](ConstBuffer b) { return reinterpret_cast<uintptr_t>(b.data); };
  const auto end = [&](ConstBuffer b) { return begin(b) + static_cast<uintptr_t>(b.bytes()); };
  if (in.count > 0 && out.count > 0 && begin(in) < end(out) && begin(out) < end(in))
    fail(call, "'in' and 'out' that do not overlap", "some bytes that are of both");
}

void check_reduction(const Call& call, ElementType type) {
  if (is_defined(call.reduction, type)) return;
  const char* defined =
      call.reduction == Reduction::average ? "elements of floating point" : "elements of integers or bool";
  fail(call, std::string(defined) + " for " + std::string(name(call.reduction)), std::string(name(type)));
}

/// A block of this rank, and the blocks of all: on every rank, or on the root. The block may be its place among them.
void check_blocks(const Call& call, bool has_all, bool gathers) {
  const ConstBuffer block = gathers ? call.in : call.out, all = gathers ? call.out : call.in;
  check_counts(call, "counts", call.counts);
  check_elements(call, gathers ? "in" : "out", block, call.counts[static_cast<size_t>(call.rank)]);
  if (!has_all) return;
  check_elements(call, gathers ? "out" : "in", all, total_of(call.counts));
  check_same_type(call);
  const int64_t start = total_of(call.counts.first(static_cast<size_t>(call.rank)));
  if (block.data != all.slice(start, 0).data) check_apart(call, block, all);
}

void check_collective(const Call& call) {
  const Collective collective = *call.collective;
  if (has_root(collective)) check_rank(call, "root", call.root);
  const bool has_all = !has_root(collective) || call.rank == call.root;
  switch (collective) {
    case Collective::barrier:
      return;
    case Collective::broadcast:
    case Collective::all_reduce:
      check_buffer(call, "buffer", call.out);
      break;
    case Collective::reduce:
      check_buffer(call, "in", call.in);
      if (!has_all) break;
      check_elements(call, "out", call.out, call.in.count);
      check_same_type(call);
      if (call.in.data != call.out.data) check_apart(call, call.in, call.out);
      break;
    case Collective::gather:
    case Collective::all_gather:
      return check_blocks(call, has_all, /*gathers=*/true);
    case Collective::scatter:
    case Collective::reduce_scatter:
      check_blocks(call, has_all, /*gathers=*/false);
      break;
    case Collective::all_to_all:
      check_counts(call, "send_counts", call.counts);
      check_counts(call, "receive_counts", call.receive_counts);
      check_elements(call, "in", call.in, total_of(call.counts));
      check_elements(call, "out", call.out, total_of(call.receive_counts));
      check_same_type(call);
      return check_apart(call, call.in, call.out);
  }
  if (has_reduction(collective)) check_reduction(call, call.in.type);
}

void check_box(const Call& call, const Message& message) {
  if (message.sizes.size() != message.strides.size())
    fail(call, "as many strides as sizes, " + text(std::ssize(message.sizes)), text(std::ssize(message.strides)));
  if (message.sizes.empty()) return;
  int64_t count = 1;
  for (size_t dim = 0; dim < message.sizes.size(); ++dim) {
    const int64_t size = message.sizes[dim];
    if (size < 0) fail(call, "no negative size", text(size));
    if (!message.is_send() && size > 1 && message.strides[dim] == 0)
      fail(call, "a stride other than 0 where a box is received", "0 for " + text(size) + " elements");
    count *= size;
  }
  if (count != message.buffer.count) fail(call, "sizes of " + text(message.buffer.count) + " elements", text(count));
}

/// The bytes of a message in memory: places begin + k[0] stride[0] + k[1] stride[1] + …, each k from 0 to its `last`.
struct Place {
  explicit Place(const Message& message) : begin(reinterpret_cast<intptr_t>(message.buffer.data)) {
    const int64_t bytes = size_of(message.buffer.type);
    is_empty = message.buffer.count == 0;
    add(1, message.sizes.empty() ? message.buffer.bytes() : bytes);
    for (size_t dim = 0; dim < message.sizes.size(); ++dim) add(message.strides[dim] * bytes, message.sizes[dim]);
  }
  void add(int64_t stride, int64_t size) {
    if (size < 2 || stride == 0) return;
    if (dims == kMostDims)
      is_empty = true;  // nothing is said of it
    else
      steps[dims++] = {stride, size - 1};
    (stride < 0 ? low : high) += stride * (size - 1);
  }

  struct Step {
    int64_t stride, last;
  };
  static constexpr size_t kMostDims = 8;
  intptr_t begin;
  int64_t low = 0, high = 0;  // of the bytes, from `begin`
  bool is_empty = false;
  size_t dims = 0;
  std::array<Step, kMostDims> steps;
};

/// Whether some sum of k[d] stride[d], each k from 0 to its `last`, is `wanted`. Strides decrease, and most often each is
/// longer than all later ones reach, so that one or two k come into question; where there are more, some are left out.
bool is_sum(std::span<const Place::Step> steps, int64_t wanted) {
  if (steps.empty()) return wanted == 0;
  int64_t reach = 0;
  for (const Place::Step& later : steps.subspan(1)) reach += later.stride * later.last;
  const auto [stride, last] = steps[0];
  const int64_t most = std::min(last, wanted / stride);
  for (int64_t k = most; k >= std::max<int64_t>(0, most - 1) && wanted >= 0 && wanted - k * stride <= reach; --k)
    if (is_sum(steps.subspan(1), wanted - k * stride)) return true;
  return false;
}

/// Whether a byte is of both for certain.
bool overlap(const Place& a, const Place& b) {
  if (a.is_empty || b.is_empty || a.begin + a.low > b.begin + b.high || b.begin + b.low > a.begin + a.high)
    return false;
  // a + i s = b + j t, with every term made one of a positive stride.
  int64_t wanted = b.begin - a.begin;
  std::array<Place::Step, 2 * Place::kMostDims> all;
  size_t dims = 0;
  const auto add = [&](const Place& place, int sign) {
    for (size_t d = 0; d < place.dims; ++d) {
      auto [stride, last] = place.steps[d];
      stride *= sign;
      if (stride < 0) wanted -= stride * last, stride = -stride;
      const auto same =
          std::find_if(all.begin(), all.begin() + dims, [&](const auto& s) { return s.stride == stride; });
      if (same == all.begin() + dims)
        all[dims++] = {stride, last};
      else
        same->last += last;
    }
  };
  add(a, 1);
  add(b, -1);
  std::sort(all.begin(), all.begin() + dims, [](const auto& x, const auto& y) { return x.stride > y.stride; });
  return is_sum({all.data(), dims}, wanted);
}

/// That nothing is received where another message sends from or receives. Of many messages that would cost more than
/// posting them.
void check_apart(const Call& call) {
  constexpr size_t kMost = 8;
  const size_t n = call.messages.size();
  if (n < 2 || n > kMost) return;
  std::array<std::optional<Place>, kMost> places;
  for (size_t i = 0; i < n; ++i) {
    places[i].emplace(call.messages[i]);
    for (size_t j = 0; j < i; ++j)
      if (!(call.messages[i].is_send() && call.messages[j].is_send()) && overlap(*places[i], *places[j]))
        fail(call, call.message() ? "'in' and 'out' that do not overlap" : "messages that do not overlap",
             "some bytes that are of both");
  }
}

void check_messages(const Call& call) {
  for (const Message& message : call.messages) {
    check_rank(call, "peer", message.peer);
    if (message.tag < 0 || message.tag > kMaxTag) fail(call, "a tag from 0 to " + text(kMaxTag), text(message.tag));
    check_buffer(call, !call.message() ? "buffer" : message.is_send() ? "in" : "out", message.buffer);
    check_box(call, message);
  }
  check_apart(call);
}

}  // namespace

void check(const Call& call) {
  call.collective ? check_collective(call) : check_messages(call);
}

void check_rank(const Call& call, const char* role, int rank) {
  if (rank < 0 || rank >= call.size)
    fail(call, std::string("a ") + role + " from 0 to " + text(call.size - 1), text(rank));
}

void fail(const Call& call, const std::string& expected, const std::string& came) {
  throw InvalidArgument(std::string(call.name) + " on rank " + text(call.rank) + " of " + text(call.size) + " at " +
                        call.where.file_name() + ":" + text(call.where.line()) + ": expected " + expected + ", got " +
                        came);
}

}  // namespace adjoin::arguments
