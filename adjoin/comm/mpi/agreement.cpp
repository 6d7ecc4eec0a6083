// What is compared before collectives in checked mode.

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/diagnosis.hpp"
#include "adjoin/comm/mpi/transport.hpp"

namespace adjoin::mpi {

namespace {

/// What every rank gives, in their order.
template <class T>
std::vector<T> gather_all(const Group& group, const T& mine) {
  std::vector<T> all(group.world_ranks().size());
  constexpr int kBytes = sizeof(T);
  check_mpi(MPI_Allgather(&mine, kBytes, MPI_BYTE, all.data(), kBytes, MPI_BYTE, group.comm()), "MPI_Allgather");
  return all;
}

[[noreturn]] void throw_mismatch(const Group& group, const Call& call) {
  std::array<char, 256> mine{};
  describe(call).copy(mine.data(), mine.size() - 1);
  std::vector<diagnosis::Line> calls;
  for (const auto& text : gather_all(group, mine)) calls.push_back({group.world_ranks()[calls.size()], text.data()});
  throw CommunicationError("mismatched collectives" +
                           diagnosis::group_name(group.world_ranks(), group.shared()->world_size) + ":" +
                           diagnosis::list_of(calls));
}

/// Whether the ranks of an all_to_all send what their peers receive.
bool counts_fit(const Group& group, const Call& call) {
  std::vector<int64_t> sent_to_me(call.counts.size());
  check_mpi(MPI_Alltoall(call.counts.data(), 1, MPI_INT64_T, sent_to_me.data(), 1, MPI_INT64_T, group.comm()),
            "MPI_Alltoall");
  const auto fit = gather_all(group, static_cast<char>(std::ranges::equal(sent_to_me, call.receive_counts)));
  return std::ranges::count(fit, 0) == 0;
}

}  // namespace

void Transport::check_agreement(const Call& call) const {
  const Group& group = *group_;
  const std::vector<Signature> all = gather_all(group, signature_of(call));
  const bool agree = std::ranges::all_of(all, [&](const Signature& other) { return other == all[0]; });
  if (!agree || (call.collective == Collective::all_to_all && !counts_fit(group, call))) throw_mismatch(group, call);
}

}  // namespace adjoin::mpi
