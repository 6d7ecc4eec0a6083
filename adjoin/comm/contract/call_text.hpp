#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "adjoin/comm/contract/call.hpp"

namespace adjoin {

/// All that describes a call, with copies of what it points to: plain data, for memory that processes share. Readers take what
/// they find, without a lock: a torn copy gives odd words but no wrong accusation.
struct CallText {
  Call call;        // fields not listed below, copied one by one: a whole copy would wait for the call's stores
  Message message;  // the message that describes the call
  bool has_messages = false;
  char name[20] = {}, algorithm[20] = {}, file[64] = {};
  const char* path = nullptr;  // the original of `file`; valid in the writing process alone
  unsigned line = 0;

  CallText& operator=(const Call& of);
};

/// describe(Call) for what was written; counts are included where they are given.
std::string describe(const CallText& text, std::span<const int64_t> counts = {},
                     std::span<const int64_t> receive_counts = {});

}  // namespace adjoin
