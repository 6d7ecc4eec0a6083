#pragma once

#include <string>
#include <vector>

#include "tests/support/programs/generator.hpp"

namespace adjoin::testing::programs {

/// What one rank does otherwise than the others expect.
enum class Change : uint8_t {
  operation,
  root,
  count,
  type,
  reduction,
  algorithm,
  missing_call,
  extra_call,
  order,           // of two calls on two groups that meet in another rank too
  missing_member,  // never comes to a subset
  wrong_counts,    // sends or receives another count than its peer in an all_to_all
  message,         // another count, type or tag
  lost_send,
  lost_receive,
  overlap,  // of the input and the output
  exception,
};
inline constexpr int kChanges = 16;

/// The class of what tells of calls that do not fit.
inline constexpr const char* kTold = "CommunicationError";

struct WrongProgram {
  Program meant, changed;
  int culprit = 0;  // the rank that runs `changed`
  Change change = {};
  std::string what = {};               // of the steps is other
  std::string error = {};              // the class that launch throws
  std::vector<std::string> says = {};  // what its message must have

  const Program& of(int rank) const { return rank == culprit ? changed : meant; }
};

/// A right program of which one rank differs so that the whole can never be right: on 2 to 9 threads, or an MPI job.
WrongProgram wrong_program(uint64_t seed, int mpi_ranks = 0);

/// What is wrong with what launch has thrown, an exception of the class `error`; "" where nothing is.
std::string difference(const WrongProgram& program, const std::string& error, const std::string& message);

std::string describe(const WrongProgram& program);

}  // namespace adjoin::testing::programs
