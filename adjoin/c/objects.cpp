#include "adjoin/c/objects.hpp"

#include <atomic>

#include "adjoin/base/error.hpp"

namespace adjoin::c {

void Counter::begin(const Call& call) {
  std::atomic_ref(collectives) += call.collective ? 1 : 0;
  std::atomic_ref(collective_bytes) += call.collective ? call.in.bytes() : 0;
  for (const Message& message : call.messages) {
    std::atomic_ref(messages) += message.is_send() ? 1 : 0;
    std::atomic_ref(bytes) += message.is_send() ? message.buffer.bytes() : 0;
  }
}

Handles& Handles::all() {
  static auto& handles = *new Handles;  // outlives the program's static objects
  return handles;
}

adjoin_handle Handles::add(Any what) {
  const std::lock_guard lock(mutex_);
  size_t place = 0;
  while (place < places_.size() && places_[place].what.index() != 0) ++place;
  if (place == places_.size()) places_.emplace_back();
  places_[place].what = std::move(what);
  return uint64_t{++places_[place].turn} << 32 | (place + 1);
}

Handles::Any* Handles::find(adjoin_handle handle) {
  const size_t place = (handle & 0xffffffff) - 1;
  if (handle == 0 || place >= places_.size() || places_[place].turn != handle >> 32) return nullptr;
  return places_[place].what.index() == 0 ? nullptr : &places_[place].what;
}

void Handles::refuse(const char* expected, adjoin_handle handle, const Any* found) {
  const char* got = found         ? kNames[found->index()]
                    : handle == 0 ? "no handle (0)"
                                  : "a handle that was freed or never given";
  throw InvalidArgument(std::string("expected ") + expected + ", got " + got);
}

void Handles::remove(adjoin_handle handle) {
  Any gone;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  if (Any* any = find(handle)) std::swap(*any, gone);
}

}  // namespace adjoin::c
