#pragma once

#include <functional>
#include <string>

#include "adjoin/comm/communicator.hpp"
#include "tests/support/programs/program.hpp"

namespace adjoin::testing::programs {

/// Where reports of failed calls say that they were made.
inline constexpr const char* kMadeAt = "run.cpp:";

/// Is told of each wrong result; called on any thread of the rank.
using OnWrong = std::function<void(const std::string& problem)>;

/// Takes this rank's steps of the program; `world` is its first group.
/// Throws: what a call throws, or a step of the kind `fail`
void run(const Program& program, const Communicator& world, const OnWrong& on_wrong);

}  // namespace adjoin::testing::programs
