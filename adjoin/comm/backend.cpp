#include "adjoin/comm/backend.hpp"

#include "adjoin/base/error.hpp"
#include "adjoin/comm/algorithm/perform.hpp"

namespace adjoin {

std::shared_ptr<Backend> Backend::for_thread(bool) {
  return shared_from_this();
}

bool Backend::fail(std::exception_ptr cause) noexcept {
  if (cause) abort(message_of(cause));
  return cause != nullptr;
}

void Backend::carry_out(const Call& call) {
  algorithm::perform(call, *this);
}

}  // namespace adjoin
