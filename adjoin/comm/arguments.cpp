#include "adjoin/comm/arguments.hpp"

#include <array>
#include <iterator>
#include <optional>

#include "adjoin/base/box.hpp"
#include "adjoin/base/device_runtime.hpp"
#include "adjoin/base/error.hpp"
#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::arguments {

using algorithm::start_of;
using algorithm::total_of;
using Counts = std::span<const int64_t>;

namespace {

using adjoin::text;
std::string text(int64_t number) {
  return std::to_string(number);
}

void check_buffer(const Call& call, const char* role, ConstBuffer buffer) {
  if (buffer.count < 0) fail(call, std::string("a count of '") + role + "' that is not negative", text(buffer.count));
  if (buffer.count > 0 && !buffer.data)
    fail(call, std::string("memory for ") + text(buffer.count) + " elements of '" + role + "'", "a null pointer");
  if (buffer.device.kind != Device::Kind::cpu && !device_runtime())
    fail(call, std::string("'") + role + "' on the CPU", "a buffer on " + text(buffer.device));
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

void check_same_device(const Call& call, ConstBuffer a, ConstBuffer b, const char* what) {
  if (a.count > 0 && b.count > 0 && !(a.device == b.device))
    fail(call, std::string(what) + " on one device", text(a.device) + " and " + text(b.device));
}

/// Checks that 'in' and 'out' have elements of one type on one device.
void check_alike(const Call& call) {
  check_same_device(call, call.in, call.out, "'in' and 'out'");
  if (call.in.type != call.out.type)
    fail(call, "one element type of 'in' and 'out'",
         std::string(name(call.in.type)) + " and " + std::string(name(call.out.type)));
}

/// Checks that the two buffers share no byte.
void check_apart(const Call& call, ConstBuffer in, ConstBuffer out) {
  const auto begin = [](ConstBuffer b) { return reinterpret_cast<uintptr_t>(b.data); };
  const auto end = [&](ConstBuffer b) { return begin(b) + static_cast<uintptr_t>(b.bytes()); };
  if (in.count > 0 && out.count > 0 && begin(in) < end(out) && begin(out) < end(in))
    fail(call, "'in' and 'out' that do not overlap", "buffers that share some bytes");
}

void check_reduction(const Call& call, ElementType type) {
  if (is_defined(call.reduction, type)) return;
  const char* defined = call.reduction == Reduction::average ? "floating-point elements" : "integer or bool elements";
  fail(call, std::string(defined) + " for " + std::string(name(call.reduction)), std::string(name(type)));
}

/// Checks a block of this rank and the blocks of all ranks, which are on every rank or on the root. The block may be at
/// its own place among them.
void check_blocks(const Call& call, bool has_all, bool gathers) {
  const ConstBuffer block = gathers ? call.in : call.out, all = gathers ? call.out : call.in;
  check_counts(call, "counts", call.counts);
  check_elements(call, gathers ? "in" : "out", block, call.counts[static_cast<size_t>(call.rank)]);
  if (!has_all) return;
  check_elements(call, gathers ? "out" : "in", all, total_of(call.counts));
  check_alike(call);
  const int64_t start = start_of(call.counts, call.rank);
  if (block.data != all.slice(start, 0).data) check_apart(call, block, all);
}

void check_whole(const Call& call, bool gets) {
  check_buffer(call, "in", call.in);
  if (!gets) return;
  check_elements(call, "out", call.out, call.in.count);
  check_alike(call);
  if (call.in.data != call.out.data) check_apart(call, call.in, call.out);
}

void check_blocks_of_all(const Call& call) {
  check_counts(call, "send_counts", call.counts);
  check_counts(call, "receive_counts", call.receive_counts);
  check_elements(call, "in", call.in, total_of(call.counts));
  check_elements(call, "out", call.out, total_of(call.receive_counts));
  check_alike(call);
  check_apart(call, call.in, call.out);
}

void check_collective(const Call& call) {
  const CollectiveKind& kind = kind_of(*call.collective);
  if (has_root(*call.collective)) check_rank(call, "root", call.root);
  const bool has_all = !has_root(*call.collective) || call.rank == call.root;
  if (kind.is_in_place)
    check_buffer(call, "buffer", call.out);
  else if (kind.gives == Extent::whole)
    check_whole(call, has_all);
  else if (kind.gives != kind.gets)
    check_blocks(call, has_all, /*gathers=*/kind.gives == Extent::own_block);
  else if (kind.gives == Extent::all_blocks)
    check_blocks_of_all(call);
  if (kind.reduces) check_reduction(call, call.in.type);
}

void check_box(const Call& call, const Message& message) {
  if (message.sizes.size() != message.strides.size())
    fail(call, text(std::ssize(message.sizes)) + " strides, one for each size", text(std::ssize(message.strides)));
  if (message.sizes.empty()) return;
  int64_t count = 1;
  for (size_t dim = 0; dim < message.sizes.size(); ++dim) {
    const int64_t size = message.sizes[dim];
    if (size < 0) fail(call, "no negative size", text(size));
    if (!message.is_send() && size > 1 && message.strides[dim] == 0)
      fail(call, "a stride other than 0 in the box that is received", "0 for a dim of size " + text(size));
    count *= size;
  }
  if (count != message.buffer.count)
    fail(call, "sizes with a product of " + text(message.buffer.count) + ", the count of the buffer", text(count));
}

/// Checks that nothing is received where another message sends from or receives. For many messages this would cost more
/// than posting them.
void check_apart(const Call& call) {
  constexpr size_t kMost = 8;
  const size_t n = call.messages.size();
  if (n < 2 || n > kMost) return;
  std::array<std::optional<BoxBytes>, kMost> places;
  for (size_t i = 0; i < n; ++i) {
    const Message& m = call.messages[i];
    places[i].emplace(m.buffer.data, m.buffer.count, m.sizes, m.strides, size_of(m.buffer.type));
    for (size_t j = 0; j < i; ++j)
      if (!(m.is_send() && call.messages[j].is_send()) && overlap(*places[i], *places[j]))
        fail(call, call.message() ? "'in' and 'out' that do not overlap" : "messages that do not overlap",
             "boxes that share some bytes");
  }
}

void check_messages(const Call& call) {
  for (const Message& message : call.messages) {
    check_rank(call, "peer", message.peer);
    if (message.tag < 0 || message.tag > kMaxTag) fail(call, "a tag from 0 to " + text(kMaxTag), text(message.tag));
    check_buffer(call, !call.message() ? "buffer" : message.is_send() ? "in" : "out", message.buffer);
    check_box(call, message);
    check_same_device(call, call.messages[0].buffer, message.buffer, "all messages");
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
