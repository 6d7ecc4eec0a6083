#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "adjoin/comm/call.hpp"

namespace adjoin {

/// What a call is described by, with copies of what it points to: plain data, for memory that processes share. It is written
/// and may be read as it comes: a torn one makes odd words, no wrong accusation.
struct CallText {
  Call call;        // what is not below; field by field, as a copy of all would wait for the stores that made the call
  Message message;  // that it is named by
  bool has_messages = false;
  char name[20] = {}, algorithm[20] = {}, file[64] = {};
  const char* path = nullptr;  // of which `file` is a copy; means something to the writer alone
  unsigned line = 0;

  CallText& operator=(const Call& of);
};

/// As describe(Call), of what was written; the counts are described where they are known.
std::string describe(const CallText& text, std::span<const int64_t> counts = {},
                     std::span<const int64_t> receive_counts = {});

}  // namespace adjoin
