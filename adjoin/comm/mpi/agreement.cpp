#include "adjoin/comm/mpi/agreement.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/comm/diagnosis.hpp"
#include "adjoin/comm/mpi/shared.hpp"

namespace adjoin::mpi {

namespace {

using Digest = std::array<uint64_t, 6>;
using Description = std::array<char, 256>;

bool is_all_to_all(const Operation& operation) {
  return operation.name == "all_to_all";
}

/// What must be the same on all ranks.
Digest digest_of(const Operation& operation) {
  const bool has_counts = !operation.counts.empty();
  return {hash_of(operation.name),
          hash_of(operation.algorithm),
          hash_of(operation.reduction),
          static_cast<uint64_t>(operation.type),
          static_cast<uint64_t>(operation.root),
          is_all_to_all(operation) ? 0
          : has_counts             ? hash_of(operation.counts)
                                   : static_cast<uint64_t>(operation.count)};
}

[[noreturn]] void throw_mismatch(MPI_Comm comm, const Operation& operation, std::span<const int> world_ranks) {
  Description mine{};
  const std::string text = describe(operation);
  std::memcpy(mine.data(), text.data(), std::min(text.size(), mine.size() - 1));
  std::vector<Description> all(world_ranks.size());
  check_mpi(MPI_Allgather(mine.data(), static_cast<int>(mine.size()), MPI_CHAR, all.data(),
                          static_cast<int>(mine.size()), MPI_CHAR, comm),
            "MPI_Allgather");
  std::vector<diagnosis::Line> calls;
  for (size_t r = 0; r < all.size(); ++r) calls.push_back({world_ranks[r], all[r].data()});
  throw CommunicationError("mismatched collectives:" + diagnosis::list_of(calls));
}

bool counts_agree(MPI_Comm comm, const Operation& operation) {
  std::vector<int64_t> sent_to_me(operation.counts.size());
  check_mpi(MPI_Alltoall(operation.counts.data(), 1, MPI_INT64_T, sent_to_me.data(), 1, MPI_INT64_T, comm),
            "MPI_Alltoall");
  int agree = std::equal(sent_to_me.begin(), sent_to_me.end(), operation.receive_counts.begin());
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &agree, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
  return agree != 0;
}

}  // namespace

void check_agreement(MPI_Comm comm, const Operation& operation, std::span<const int> world_ranks) {
  const Digest mine = digest_of(operation);
  std::vector<Digest> all(world_ranks.size());
  check_mpi(MPI_Allgather(mine.data(), static_cast<int>(mine.size()), MPI_UINT64_T, all.data(),
                          static_cast<int>(mine.size()), MPI_UINT64_T, comm),
            "MPI_Allgather");
  const bool agree = std::all_of(all.begin(), all.end(), [&](const Digest& other) { return other == all[0]; });
  if (!agree || (is_all_to_all(operation) && !counts_agree(comm, operation)))
    throw_mismatch(comm, operation, world_ranks);
}

}  // namespace adjoin::mpi
