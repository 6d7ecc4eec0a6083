#include "adjoin/comm/contract/call.hpp"

#include <algorithm>
#include <numeric>

#include "adjoin/base/device_runtime.hpp"
#include "adjoin/base/hash.hpp"

namespace adjoin {

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

bool Call::only_sends() const {
  return !collective && std::ranges::all_of(messages, &Message::is_send);
}

ConstBuffer Call::elements() const {
  if (collective) return collective == Collective::scatter ? ConstBuffer(out) : in;
  if (messages.size() == 1 && message()) return messages[0].buffer;
  ConstBuffer sent;
  if (!messages.empty()) sent = {nullptr, 0, messages[0].buffer.type, messages[0].buffer.device};
  for (const Message& m : messages)
    if (m.is_send()) sent.count += m.buffer.count;
  return sent;
}

Signature signature_of(const Call& call) {
  const ConstBuffer elements = call.elements();
  const bool has_counts = !call.counts.empty();
  return {.collective = *call.collective,
          .type = elements.type,
          .reduction = call.reduction,
          .root = call.root,
          .elements = call.collective == Collective::all_to_all ? 0
                      : has_counts                              ? hash_of(call.counts)
                                                                : static_cast<uint64_t>(elements.count),
          .algorithm = call.algorithm.empty() ? 0 : hash_of(call.algorithm),
          .moved_type = call.moved_type.empty() ? 0 : hash_of(call.moved_type),
          .device = elements.device.kind};
}

std::string describe(const Where& where) {
  const std::string_view path = where.file_name();
  return std::string(path.substr(path.rfind('/') + 1)) + ":" + std::to_string(where.line());
}

std::string describe(ConstBuffer buffer) {
  const std::string elements = std::string(name(buffer.type)) + " x " + std::to_string(buffer.count);
  return buffer.device == Device() ? elements : elements + " on " + text(buffer.device);
}

}  // namespace adjoin
