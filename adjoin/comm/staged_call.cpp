#include "adjoin/comm/staged_call.hpp"

#include <algorithm>

#include "adjoin/base/device_runtime.hpp"
#include "adjoin/comm/contract/host_memory.hpp"

namespace adjoin {

bool StagedCall::is_needed(const Call& call, const Backend& backend) {
  if (call.is_staged || backend.takes_devices(call)) return false;
  if (call.collective) return call.in.is_on_device() || call.out.is_on_device();
  return std::ranges::any_of(call.messages, [](const Message& message) { return message.buffer.is_on_device(); });
}

StagedCall::StagedCall(const Call& call) : staged_(call), messages_(call.messages.begin(), call.messages.end()) {
  staged_.is_staged = true;
  staged_.messages = messages_;
  for (Message& message : messages_) {
    if (!message.buffer.is_on_device()) continue;
    message.buffer.data = copy_of(message, message.is_send(), !message.is_send());
    message.sizes = message.strides = {};
  }
  if (!call.collective) return;
  const CollectiveKind& kind = kind_of(*call.collective);
  const bool is_root = call.root < 0 || call.rank == call.root;
  // A broadcast reads the root's memory, which may be read-only, and writes that of the others.
  const bool reads = is_root || kind.root != CollectiveKind::Root::gives;
  const bool writes =
      kind.is_in_place && call.root >= 0 ? !is_root : is_root || kind.root != CollectiveKind::Root::gets;
  if (kind.is_in_place) {
    if (call.out.is_on_device()) staged_.out.data = copy_of(receive_of(call.out, 0, 0), reads, writes);
    staged_.in = staged_.out;
    return;
  }
  if (reads && call.in.is_on_device()) staged_.in.data = copy_of(send_of(call.in, 0, 0), true, false);
  if (writes && call.out.is_on_device()) staged_.out.data = copy_of(receive_of(call.out, 0, 0), false, true);
}

void* StagedCall::copy_of(const Message& elements, bool is_read, bool is_written) {
  const Buffer& buffer = elements.buffer;
  void* const copy = copies_.emplace_back(host_memory(static_cast<size_t>(buffer.bytes()))).get();
  if (is_read) device_runtime()->to_host(copy, buffer, elements.sizes, elements.strides);
  if (is_written) written_.emplace_back(elements, copy);
  return copy;
}

void StagedCall::finish() const {
  for (const auto& [elements, copy] : written_)
    device_runtime()->to_device(elements.buffer, elements.sizes, elements.strides, copy);
}

}  // namespace adjoin
