#include "adjoin/linalg/agreement.hpp"

#include <algorithm>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/comm/values.hpp"

namespace adjoin::linalg {

void check_agreement(const char* operation, const std::string& mine, const Communicator& group) {
  if (group.size() == 1) return;
  const std::vector<int64_t> hashes = numbers_of_all(static_cast<int64_t>(hash_of(mine)), group);
  if (std::all_of(hashes.begin(), hashes.end(), [&](int64_t hash) { return hash == hashes[0]; })) return;
  const std::vector<std::string> texts = texts_of_all(mine, group);
  std::string message = std::string(operation) + ": expected the same arguments on all ranks of the group, got ";
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (rank > 0 && texts[rank] == texts[rank - 1]) continue;  // the same as the previous rank's
    message += (rank > 0 ? "; from rank " : "from rank ") + std::to_string(rank) + " on " + texts[rank];
  }
  throw InvalidArgument(message);
}

}  // namespace adjoin::linalg
