#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin {

/// One number or text of each rank of a group, returned on all of them.
std::vector<int64_t> numbers_of_all(int64_t mine, const Communicator& group);
std::vector<std::string> texts_of_all(const std::string& mine, const Communicator& group);

/// The largest of the ranks' numbers.
int64_t largest_of_all(int64_t mine, const Communicator& group);

/// The text of one rank, returned on all of them.
std::string text_from_rank(int rank, std::string mine, const Communicator& group);

}  // namespace adjoin
