#pragma once

#include <optional>

#include "adjoin/base/not_copied.hpp"
#include "adjoin/comm/contract/where.hpp"

namespace adjoin {

/// While it lives, calls of communicators on this thread are reported at this place, the code that requested them, instead of
/// at the file of the movement that makes them. Where several are alive, the outermost one is used.
class CallSite : NotCopied {
 public:
  using Where = adjoin::Where;

  explicit CallSite(const std::optional<Where>& where) : is_outermost_(!current_ && where) {
    if (is_outermost_) current_ = where;
  }
  ~CallSite() {
    if (is_outermost_) current_.reset();
  }

  static const std::optional<Where>& current() { return current_; }

 private:
  static inline thread_local std::optional<Where> current_;
  bool is_outermost_;
};

}  // namespace adjoin
