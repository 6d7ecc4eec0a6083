#pragma once

#include <ATen/autocast_mode.h>

#include <optional>

#include "adjoin/base/not_copied.hpp"

namespace adjoin {

/// The type in which autocast lets products of this thread compute; none where it is off.
inline std::optional<at::ScalarType> type_of_products(at::DeviceType device) {
  if (!at::autocast::is_autocast_enabled(device)) return std::nullopt;
  return at::autocast::get_autocast_dtype(device);
}

/// While it lives, operations of this thread on a type of device run under autocast with products of `type`, or without.
class AutocastMode : NotCopied {
 public:
  AutocastMode(at::DeviceType device, bool enabled, at::ScalarType type)
      : device_(device),
        was_enabled_(at::autocast::is_autocast_enabled(device)),
        type_before_(at::autocast::get_autocast_dtype(device)),
        was_cached_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_enabled(device, enabled);
    at::autocast::set_autocast_dtype(device, type);
    // The cache of cast weights belongs to the process: when one worker clears it, the others lose their casts.
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~AutocastMode() {
    at::autocast::set_autocast_enabled(device_, was_enabled_);
    at::autocast::set_autocast_dtype(device_, type_before_);
    at::autocast::set_autocast_cache_enabled(was_cached_);
  }

 private:
  const at::DeviceType device_;
  const bool was_enabled_;
  const at::ScalarType type_before_;
  const bool was_cached_;
};

}  // namespace adjoin
