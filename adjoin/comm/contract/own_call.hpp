#pragma once

#include <vector>

#include "adjoin/base/not_copied.hpp"
#include "adjoin/comm/contract/call.hpp"

namespace adjoin {

/// A call with copies of all that it points to except the buffers, for a call that goes on after its caller does.
struct OwnCall : NotCopied {
  explicit OwnCall(const Call& of)
      : counts(of.counts.begin(), of.counts.end()),
        receive_counts(of.receive_counts.begin(), of.receive_counts.end()),
        messages(of.messages.begin(), of.messages.end()),
        call(of) {
    for (Message& message : messages) {
      if (message.sizes.empty()) continue;
      message.sizes = boxes.emplace_back(message.sizes.begin(), message.sizes.end());
      message.strides = boxes.emplace_back(message.strides.begin(), message.strides.end());
    }
    call.counts = counts;
    call.receive_counts = receive_counts;
    call.messages = messages;
  }

  std::vector<int64_t> counts, receive_counts;
  std::vector<Message> messages;
  std::vector<std::vector<int64_t>> boxes;
  Call call;
};

}  // namespace adjoin
