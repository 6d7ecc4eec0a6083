#include "adjoin/comm/checked_call.hpp"

#include <iterator>

#include "adjoin/base/error.hpp"

namespace adjoin {

namespace {

std::string text(int64_t number) {
  return std::to_string(number);
}

}  // namespace

CheckedCall::~CheckedCall() {
  if (!begun_) return;
  if (observer_) observer_->end(operation_);
  backend_.end_call();
}

void CheckedCall::begin(const About& about) {
  operation_.count = about.elements.count;
  operation_.type = about.elements.type;
  operation_.root = about.root;
  operation_.peer = about.peer;
  operation_.tag = about.tag;
  operation_.reduction = about.reduction;
  operation_.counts = about.counts;
  operation_.receive_counts = about.receive_counts;
  backend_.begin_call(operation_);
  begun_ = true;
  if (observer_) observer_->begin(operation_);
}

void CheckedCall::fail(const std::string& expected, const std::string& came) const {
  throw InvalidArgument(std::string(operation_.name) + " on rank " + text(operation_.rank) + " of " +
                        text(operation_.size) + " at " + operation_.where.file_name() + ":" +
                        text(operation_.where.line()) + ": expected " + expected + ", got " + came);
}

void CheckedCall::check_rank(const char* role, int rank) const {
  if (rank < 0 || rank >= operation_.size)
    fail(std::string("a ") + role + " from 0 to " + text(operation_.size - 1), text(rank));
}

void CheckedCall::check_tag(int tag) const {
  if (tag < 0 || tag > kMaxTag) fail("a tag from 0 to " + text(kMaxTag), text(tag));
}

void CheckedCall::check_buffer(const char* role, ConstBuffer buffer) const {
  if (buffer.count < 0) fail(std::string("a count of '") + role + "' that is not negative", text(buffer.count));
  if (buffer.count > 0 && !buffer.data)
    fail(std::string("memory for ") + text(buffer.count) + " elements of '" + role + "'", "a null pointer");
  if (buffer.device.kind != Device::Kind::cpu)
    fail(std::string("'") + role + "' on the CPU", "a buffer on another device");
}

void CheckedCall::check_box(const Message& message) const {
  if (message.sizes.size() != message.strides.size())
    fail("as many strides as sizes, " + text(std::ssize(message.sizes)), text(std::ssize(message.strides)));
  if (message.sizes.empty()) return;
  int64_t count = 1;
  for (size_t dim = 0; dim < message.sizes.size(); ++dim) {
    const int64_t size = message.sizes[dim];
    if (size < 0) fail("no negative size", text(size));
    if (message.kind == Message::Kind::receive && size > 1 && message.strides[dim] == 0)
      fail("a stride other than 0 where a box is received", "0 for " + text(size) + " elements");
    count *= size;
  }
  if (count != message.buffer.count) fail("sizes of " + text(message.buffer.count) + " elements", text(count));
}

void CheckedCall::check_elements(const char* role, ConstBuffer buffer, int64_t count) const {
  check_buffer(role, buffer);
  if (buffer.count != count) fail(text(count) + " elements of '" + role + "'", text(buffer.count));
}

void CheckedCall::check_apart(ConstBuffer in, ConstBuffer out) const {
  const auto begin = [](ConstBuffer b) { return reinterpret_cast<uintptr_t>(b.data); };
  const auto end = [&](ConstBuffer b) { return begin(b) + static_cast<uintptr_t>(b.bytes()); };
  if (in.count > 0 && out.count > 0 && begin(in) < end(out) && begin(out) < end(in))
    fail("'in' and 'out' that do not overlap", "some bytes that are of both");
}

void CheckedCall::check_own_or_apart(ConstBuffer block, ConstBuffer all, std::span<const int64_t> counts) const {
  int64_t start = 0;
  for (const int64_t count : counts.first(static_cast<size_t>(rank()))) start += count;
  if (block.data != all.slice(start, 0).data) check_apart(block, all);
}

void CheckedCall::check_same_type(ConstBuffer in, ConstBuffer out) const {
  if (in.type != out.type)
    fail("one element type of 'in' and 'out'", std::string(name(in.type)) + " and " + std::string(name(out.type)));
}

void CheckedCall::check_reduction(Reduction reduction, ElementType type) const {
  if (is_defined(reduction, type)) return;
  const char* defined = reduction == Reduction::average ? "elements of floating point" : "elements of integers or bool";
  fail(std::string(defined) + " for " + std::string(name(reduction)), std::string(name(type)));
}

void CheckedCall::check_counts(const char* role, std::span<const int64_t> counts) const {
  if (static_cast<int>(counts.size()) != operation_.size)
    fail(text(operation_.size) + " numbers in '" + role + "'", text(static_cast<int64_t>(counts.size())));
  for (const int64_t count : counts)
    if (count < 0) fail(std::string("no negative number in '") + role + "'", text(count));
}

}  // namespace adjoin
