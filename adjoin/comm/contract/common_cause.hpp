#pragma once

#include <exception>

namespace adjoin {

/// A second base of an error that all ranks find alike, so that its report does not name the rank that found it first.
struct CommonCause {
  virtual ~CommonCause() = default;
};

/// Such an error: `throw Common<InvalidArgument>("…")`.
template <class Kind>
class Common final : public Kind, public CommonCause {
  using Kind::Kind;
};

inline bool is_common(const std::exception_ptr& cause) {
  try {
    if (cause) std::rethrow_exception(cause);
  } catch (const CommonCause&) {
    return true;
  } catch (...) {
  }
  return false;
}

}  // namespace adjoin
