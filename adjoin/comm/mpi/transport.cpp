#include "adjoin/comm/mpi/transport.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/process_owner.hpp"
#include "adjoin/comm/algorithm/perform.hpp"
#include "adjoin/comm/contract/diagnosis.hpp"
#include "adjoin/comm/mpi/host_parts.hpp"
#include "adjoin/comm/mpi/process_backend.hpp"
#include "adjoin/comm/mpi/progress.hpp"

namespace adjoin::mpi {

namespace {

/// Compares the collectives that the ranks are about to begin, in checked mode.
/// Cost: one all-gather of some 300 bytes per rank
class Comparison : NotCopied {
 public:
  Comparison(const Group& group, const Call& call) : group_(group), all_(group.world_ranks().size()) {
    mine_.signature = signature_of(call);
    describe(call).copy(mine_.text.data(), mine_.text.size() - 1);
    constexpr int kBytes = sizeof(Told);
    check_mpi(MPI_Iallgather(&mine_, kBytes, MPI_BYTE, all_.data(), kBytes, MPI_BYTE, group.comm(), &request_),
              "MPI_Iallgather");
  }

  bool has_ended() {
    int is_over = 0;
    check_mpi(MPI_Test(&request_, &is_over, MPI_STATUS_IGNORE), "MPI_Iallgather");
    return is_over != 0;
  }
  /// Throws: CommunicationError with every rank's call, the same on all ranks, where the calls do not match
  void finish() {
    check_mpi(MPI_Wait(&request_, MPI_STATUS_IGNORE), "MPI_Iallgather");
    if (!std::ranges::all_of(all_, [&](const Told& other) { return other.signature == all_[0].signature; }))
      throw_mismatch();
  }
  [[noreturn]] void throw_mismatch() const {
    std::vector<diagnosis::Line> calls;
    for (const Told& told : all_) calls.push_back({group_.world_ranks()[calls.size()], told.text.data()});
    throw CommunicationError("mismatched collectives" +
                             diagnosis::group_name(group_.world_ranks(), group_.shared()->world_size) + ":" +
                             diagnosis::list_of(calls));
  }

 private:
  struct Told {
    Signature signature;
    std::array<char, 256> text{};
  };
  const Group& group_;
  Told mine_;
  std::vector<Told> all_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

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

/// A call that goes on whenever somebody looks.
class Transport::Begun final : public Pending, Progress::Begun {
 public:
  Begun(std::shared_ptr<Transport> transport, const Call& call, std::unique_ptr<algorithm::Run> run)
      : Progress::Begun(run ? transport->group_.get() : nullptr),
        transport_(std::move(transport)),
        call_(call),
        run_(std::move(run)),
        posted_(transport_->channel_),
        is_to_compare_(run_ && transport_->options_.checked) {
    const Watched watched(*transport_->agent_, transport_->group_->entry(), call_);
    progress().begin(*this);
  }
  ~Begun() override {
    progress().leave(*this);
    if (process_.is_here() && !has_ended.load()) posted_.abandon();
  }

  void wait() override {
    const Watched watched(*transport_->agent_, transport_->group_->entry(), call_, Watched::Part::end);
    progress().await(*this);
    if (error_) std::rethrow_exception(error_);
  }
  bool done() override {
    if (progress().wants_looks()) progress().look();
    return has_ended.load();
  }

 private:
  Progress& progress() const { return *transport_->group_->shared()->progress; }

  bool go_on() override {
    try {
      return is_compared() && is_carried();
    } catch (...) {
      error_ = std::current_exception();
      return true;
    }
  }
  bool is_compared() {
    if (std::exchange(is_to_compare_, false)) comparison_.emplace(*transport_->group_, call_);
    if (comparison_ && !comparison_->has_ended()) return false;
    if (comparison_) comparison_->finish();
    comparison_.reset();
    return true;
  }
  bool is_carried() {
    for (;; is_posted_ = true) {
      if (is_posted_ && !posted_.have_ended()) return false;
      if (is_posted_) posted_.finish();
      if (run_ ? !run_->go_on() : is_posted_) return true;
      posted_.post(run_ ? run_->messages() : call_.messages, run_ ? run_->call() : call_);
    }
  }

  const ProcessOwner process_;
  const std::shared_ptr<Transport> transport_;
  const Call& call_;
  const std::unique_ptr<algorithm::Run> run_;  // nullptr: messages
  Posted posted_;
  bool is_to_compare_, is_posted_ = false;
  std::optional<Comparison> comparison_;
  std::exception_ptr error_;
};

std::unique_ptr<Pending> Transport::begin(const Call& call) {
  if (call.collective && !one_a_host_) return nullptr;
  std::unique_ptr<algorithm::Run> run = call.collective ? algorithm::begin(call, *this) : nullptr;
  if (call.collective && !run) return nullptr;
  return std::make_unique<Begun>(std::static_pointer_cast<Transport>(shared_from_this()), call, std::move(run));
}

/// Between hosts by programs: OpenMPI uses one direction of the cable at a time, as even between two ranks its all_reduce reduces
/// to one and then broadcasts; and what has begun must give the same bits.
void Transport::run_collective(const Call& call) {
  const Watched watched(*agent_, group_->entry(), call);
  const bool has_program = !call.algorithm.empty() || one_a_host_ || !is_countable(call);
  if (options_.checked && size_ > 1) {
    Comparison comparison(*group_, call);
    comparison.finish();
    const bool finds_lengths = one_a_host_;  // as each message arrives
    if (call.collective == Collective::all_to_all && !finds_lengths && !counts_fit(*group_, call))
      comparison.throw_mismatch();
  }
  if (has_program) return Backend::run_collective(call);
  if (const HostParts* parts = group_->parts()) {
    const host::ByParts by_parts(*parts, part_.get(), leaders_.get());
    if (by_parts.takes(call)) return by_parts.run(call);
  }
  call_mpi(call);
}

void Transport::carry(std::span<const Message> messages, const Call& call) {
  posted_.post(messages, call);
  posted_.finish();
}

}  // namespace adjoin::mpi
