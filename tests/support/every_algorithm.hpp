#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "adjoin/comm/algorithm/catalogue.hpp"

namespace adjoin::testing {

/// Calls `check(collective, name of the algorithm)` for each algorithm of the catalogue; failures name both.
void for_every_algorithm(const auto& check) {
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    for (const std::string_view algorithm : algorithm::names_of(collective)) {
      SCOPED_TRACE(std::string(name(collective)) + " " + std::string(algorithm));
      check(collective, algorithm);
    }
  }
}

}  // namespace adjoin::testing
