#include "adjoin/comm/mpi/transport.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/process_owner.hpp"
#include "adjoin/comm/contract/diagnosis.hpp"
#include "adjoin/comm/mpi/host_parts.hpp"
#include "adjoin/comm/mpi/process_backend.hpp"

namespace adjoin::mpi {

namespace {

[[noreturn]] void throw_mismatch(const Group& group, const Call& call) {
  std::array<char, 256> mine{};
  describe(call).copy(mine.data(), mine.size() - 1);
  std::vector<diagnosis::Line> calls;
  for (const auto& text : gather_all(group.comm(), mine))
    calls.push_back({group.world_ranks()[calls.size()], text.data()});
  throw CommunicationError("mismatched collectives" +
                           diagnosis::group_name(group.world_ranks(), group.shared()->world_size) + ":" +
                           diagnosis::list_of(calls));
}

/// Whether the ranks of an all_to_all send what their peers expect to receive.
bool counts_fit(const Group& group, const Call& call) {
  std::vector<int64_t> sent_to_me(call.counts.size());
  check_mpi(MPI_Alltoall(call.counts.data(), 1, MPI_INT64_T, sent_to_me.data(), 1, MPI_INT64_T, group.comm()),
            "MPI_Alltoall");
  const auto fit = gather_all(group.comm(), static_cast<char>(std::ranges::equal(sent_to_me, call.receive_counts)));
  return std::ranges::count(fit, 0) == 0;
}

}  // namespace

Transport::Transport(std::shared_ptr<Group> group, std::shared_ptr<Agent> agent)
    : InJob(std::move(group), std::move(agent)),
      comm_(group_->comm()),
      options_(group_->shared()->options),
      rank_(group_->rank()),
      size_(static_cast<int>(group_->world_ranks().size())),
      one_a_host_(group_->is_one_a_host()),
      channel_(*group_),
      posted_(channel_) {
  const HostParts* parts = group_->parts();
  if (parts && parts->own) part_ = std::make_unique<ProcessBackend>(parts->own, agent_);
  if (parts && parts->leaders) leaders_ = std::make_unique<Transport>(parts->leaders, agent_);
}

Transport::~Transport() = default;

void Transport::exchange(std::span<const Message> messages, const Call& call) {
  if (call.collective) return carry(messages, call);  // which is watched itself
  const Watched watched(*agent_, group_->entry(), call);
  carry(messages, call);
}

class Transport::PostedSend final : public OwnSend {
 public:
  PostedSend(std::shared_ptr<Transport> transport, const Message& message, const Call& call)
      : OwnSend(message, call), transport_(std::move(transport)), posted_(transport_->channel_) {
    transport_->group_->shared()->sends.fetch_add(1);
    const Watched watched(*transport_->agent_, transport_->group_->entry(), call_);
    posted_.post(call_.messages, call_);
  }
  ~PostedSend() override {
    if (!process_.is_here()) return;
    if (!done()) {
      const Watched watched(*transport_->agent_, transport_->group_->entry(), call_, Watched::Part::end);
      std::uncaught_exceptions() == 0 ? posted_.await() : posted_.abandon();  // whoever catches it ends the job
    }
    transport_->group_->shared()->sends.fetch_sub(1);
  }
  void wait() override {
    process_.require_here(std::string(call_.name));
    const Watched watched(*transport_->agent_, transport_->group_->entry(), call_, Watched::Part::end);
    posted_.finish();
  }
  bool done() override { return process_.is_here() && posted_.have_ended(); }

 private:
  const std::shared_ptr<Transport> transport_;
  Posted posted_;
};

std::unique_ptr<PendingSend> Transport::begin_send(const Message& message, const Call& call) {
  return std::make_unique<PostedSend>(std::static_pointer_cast<Transport>(shared_from_this()), message, call);
}

void Transport::run_collective(const Call& call) {
  const Watched watched(*agent_, group_->entry(), call);
  if (options_.checked && size_ > 1) check_all_call_alike(call);
  if (!call.algorithm.empty() || !is_countable(call)) return Backend::run_collective(call);
  if (goes_by_parts(call)) return call_by_parts(call);
  one_a_host_ ? call_between_hosts(call) : call_mpi(call);
}

void Transport::carry(std::span<const Message> messages, const Call& call) {
  posted_.post(messages, call);
  posted_.finish();
}

void Transport::check_all_call_alike(const Call& call) const {
  const Group& group = *group_;
  const std::vector<Signature> all = gather_all(group.comm(), signature_of(call));
  const bool agree = std::ranges::all_of(all, [&](const Signature& other) { return other == all[0]; });
  if (!agree || (call.collective == Collective::all_to_all && !counts_fit(group, call))) throw_mismatch(group, call);
}

}  // namespace adjoin::mpi
