#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin {

/// A number or a text of each rank of a group, on all of them.
std::vector<int64_t> numbers_of_all(int64_t mine, const Communicator& group);
std::vector<std::string> texts_of_all(const std::string& mine, const Communicator& group);

/// The largest of a number of each rank.
int64_t largest_of_all(int64_t mine, const Communicator& group);

/// The text of one rank, on all of them.
std::string text_of(int rank, std::string mine, const Communicator& group);

}  // namespace adjoin
