#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/train/workers.hpp"

namespace adjoin::cli {

using train::kMostThreads;

/// A number such as "8", from `least` to `most`.
/// Throws: InvalidArgument, with the option, and with `word` where the caller also accepts that word instead of a number.
int64_t number_of(std::string_view text, std::string_view option, int64_t least, int64_t most,
                  std::string_view word = "");

/// The same checks for a number that was already read, the second one without an upper limit.
void check_range(std::string_view option, int64_t value, int64_t least, int64_t most);
void check_least(std::string_view option, int64_t value, int64_t least);

/// An option and its number.
struct Factor {
  std::string_view option;
  int64_t value;
};

/// Checks that numbers above 0 have a product of at most `most`.
/// Throws: InvalidArgument with all their names, or with the first number that is not above 0 or is itself above `most`.
void check_product(std::initializer_list<Factor> factors, int64_t most);

/// The place of `text` among `names`.
/// Throws: InvalidArgument, with the option and all names in their order.
size_t check_choice(std::string_view option, std::string_view text, std::span<const std::string_view> names);

/// Checks the number of ranks of a command: at most kMostThreads threads, or under mpirun the job's number.
/// Throws: InvalidArgument, with the option --ranks.
void check_ranks(int64_t ranks);

/// The same for the value of --ranks, where it is given; else the job's number under mpirun, and `otherwise` without it.
int ranks_from(std::string_view given, int otherwise);

/// Numbers such as "8", "2,3,8" or "4..4096", which means doubling from the first number up to the last; each from `least`,
/// which is positive, to `most`.
/// Throws: InvalidArgument, with the name of the option.
std::vector<int64_t> numbers_of(std::string_view text, std::string_view option, int64_t least, int64_t most);

/// "4x4x3": one number for each dim, each from `least` to `most`.
/// Throws: InvalidArgument, with the name of the option.
std::vector<int64_t> numbers_by_dim(std::string_view text, std::string_view option, int64_t least, int64_t most);

}  // namespace adjoin::cli
