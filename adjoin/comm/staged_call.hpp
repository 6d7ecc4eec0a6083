#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "adjoin/base/not_copied.hpp"
#include "adjoin/comm/contract/backend.hpp"

namespace adjoin {

/// A call on a device's memory, carried out on copies in host memory: so every backend serves devices, and every
/// algorithm of the catalogue. A copy of `in` and one of
/// `out` share nothing, also where `out` is a part of `in`.
/// Cost: the call's bytes are copied to the host before it, and what it writes back to the device after it
class StagedCall : NotCopied {
 public:
  /// Whether a call has elements on a device, is not yet staged, and `backend` cannot carry it out there.
  static bool is_needed(const Call& call, const Backend& backend);

  /// Copies what the call reads. `call` and what it points to must outlive this.
  explicit StagedCall(const Call& call);

  const Call& call() const { return staged_; }
  /// Copies what the call has written, once it has ended.
  void finish() const;

 private:
  /// A message's elements, or a collective's; as a message whatever it is.
  void* copy_of(const Message& elements, bool is_read, bool is_written);

  Call staged_;
  std::vector<Message> messages_;
  std::vector<std::shared_ptr<void>> copies_;
  std::vector<std::pair<Message, const void*>> written_;  // on the device, and its copy
};

}  // namespace adjoin
