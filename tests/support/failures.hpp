#pragma once

#include <functional>
#include <string>

#include "adjoin/comm/launch.hpp"

namespace adjoin::testing {

/// The message of the `Expected` that `function` throws.
template <class Expected, class Function>
std::string thrown_by(Function function) {
  try {
    function();
  } catch (const Expected& e) {
    return e.what();
  }
  return "nothing was thrown";
}

/// The message of the `Expected` that a launch on so many threads throws.
template <class Expected>
std::string failure_of(int ranks, const std::function<void(const Communicator&)>& fn,
                       const LaunchOptions& options = {}) {
  return thrown_by<Expected>([&] { launch_threads(ranks, fn, options); });
}

}  // namespace adjoin::testing
