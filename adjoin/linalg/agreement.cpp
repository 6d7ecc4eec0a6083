#include "adjoin/linalg/agreement.hpp"

#include <algorithm>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"

namespace adjoin::linalg {
namespace {

/// One number of each rank.
std::vector<int64_t> numbers_of_all(int64_t mine, const Communicator& group) {
  std::vector<int64_t> one{mine}, all(static_cast<size_t>(group.size()));
  const std::vector<int64_t> counts(all.size(), 1);
  group.all_gather(buffer(one), buffer(all), counts);
  return all;
}

std::vector<std::string> texts_of_all(const std::string& mine, const Communicator& group) {
  const std::vector<int64_t> lengths = numbers_of_all(static_cast<int64_t>(mine.size()), group);
  std::vector<uint8_t> one(mine.begin(), mine.end()), all;
  for (const int64_t length : lengths) all.resize(all.size() + static_cast<size_t>(length));
  group.all_gather(buffer(one), buffer(all), lengths);
  std::vector<std::string> texts;
  auto begin = all.begin();
  for (const int64_t length : lengths) {
    texts.emplace_back(begin, begin + length);
    begin += length;
  }
  return texts;
}

}  // namespace

void check_agreement(const char* operation, const std::string& mine, const Communicator& group) {
  if (group.size() == 1) return;
  const std::vector<int64_t> hashes = numbers_of_all(static_cast<int64_t>(hash_of(mine)), group);
  if (std::all_of(hashes.begin(), hashes.end(), [&](int64_t hash) { return hash == hashes[0]; })) return;
  const std::vector<std::string> texts = texts_of_all(mine, group);
  std::string message = std::string(operation) + ": expected the same on all ranks of the group, got ";
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (rank > 0 && texts[rank] == texts[rank - 1]) continue;  // as the one before
    message += (rank > 0 ? "; from rank " : "from rank ") + std::to_string(rank) + " on " + texts[rank];
  }
  throw InvalidArgument(message);
}

}  // namespace adjoin::linalg
