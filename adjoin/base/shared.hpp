#pragma once

#include <memory>
#include <utility>

namespace adjoin {

/// A value that no longer changes: copies share it, and comparison compares the shared value.
template <class T>
class Shared {
 public:
  /* implicit */ Shared(T value) : value_(std::make_shared<const T>(std::move(value))) {}
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  /// Copies have equal ones.
  const void* id() const { return value_.get(); }
  bool operator==(const Shared& other) const { return value_ == other.value_ || *value_ == *other.value_; }

 private:
  std::shared_ptr<const T> value_;
};

}  // namespace adjoin
