#include "python/c10d/process_group.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <utility>

#include "adjoin/base/hash.hpp"
#include "python/c10d/run.hpp"
#include "python/c10d/store_meeting.hpp"

namespace adjoin::c10d_backend {

Call Turn::call(Collective collective, ConstBuffer in, Buffer out, at::ScalarType type) const {
  Call call{.collective = collective, .name = name(collective), .in = in, .out = out};
  call.moved_type = unit_of(type).moved_type;
  call.where = where;
  call.rank = backend.rank();
  call.size = backend.size();
  call.sequence = sequence;
  call.group = &identity;
  return call;
}

ProcessGroup::ProcessGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, std::vector<int> world_ranks,
                           int world_size, std::chrono::milliseconds timeout)
    : Backend(rank, static_cast<int>(world_ranks.size())), options_(c10::make_intrusive<Options>(timeout)) {
  identity_ = {.id = hash_of(std::span<const int>(world_ranks)), .world_ranks = world_ranks};
  run_translated([&] {
    StoreMeeting meeting(store, rank, getSize(), timeout,
                         [&] { return host::GroupWorld::who_died(identity_.world_ranks); });
    meet(meeting, store, world_size, timeout);
    host::notice_of_thread();  // from now on, whoever looks for deadlocks knows this thread
    const Turn turn{*backend_, identity_, Where(), 0};
    turn.backend.run_collective(
        turn.call(Collective::barrier, {}, {}, at::kFloat));  // then nobody reads what was met by any more
    meeting.end();
  });
  queue_ = std::make_shared<Queue>();
  init();
}

ProcessGroup::~ProcessGroup() {
  shutdown();
  if (process_.is_here()) return;
  // The child of a fork has neither the threads that these would wait for nor the memory that they would release.
  static auto& kept = *new std::vector<std::shared_ptr<void>>;
  kept.insert(kept.end(), {queue_, hosts_, member_, group_});
}

/// Makes the group in each host's memory and, where there are several hosts, what connects them.
void ProcessGroup::meet(host::Meeting& meeting, const c10::intrusive_ptr<c10d::Store>& store, int world_size,
                        std::chrono::milliseconds timeout) {
  const std::vector<int>& world_ranks = identity_.world_ranks;
  const std::vector<int> first_ranks = first_ranks_of_hosts(meeting, world_ranks);
  const int own = first_ranks[static_cast<size_t>(getRank())];
  std::vector<int> of_host;
  int place = 0;
  for (int rank = 0; rank < getSize(); ++rank) {
    if (first_ranks[static_cast<size_t>(rank)] != own) continue;
    if (rank == getRank()) place = static_cast<int>(of_host.size());
    of_host.push_back(world_ranks[static_cast<size_t>(rank)]);
  }
  const bool is_one_host = of_host.size() == world_ranks.size();
  if (is_one_host) {
    group_ = host::GroupWorld::meet(meeting, of_host, world_size);
  } else {
    const std::string failure = host::failure_of_all(meeting, [&] {
      StoreMeeting part(c10::make_intrusive<c10d::PrefixStore>("host/" + std::to_string(own), store), place,
                        static_cast<int>(of_host.size()), timeout, [&] { return host::GroupWorld::who_died(of_host); });
      group_ = host::GroupWorld::meet(part, of_host, world_size);
    });
    if (!failure.empty()) throw host::NoSharedMemory(failure);
  }
  member_ = std::make_shared<Member>(group_, place);
  member_->set_timeout(timeout);
  if (!is_one_host) hosts_ = std::make_shared<Hosts>(member_, first_ranks, world_ranks, store, getRank(), timeout);
  backend_ = is_one_host ? static_cast<adjoin::Backend*>(member_.get()) : hosts_.get();
}

void ProcessGroup::abort() {
  if (group_) backend_->abort("this group was aborted by rank " + std::to_string(identity_.world_ranks[getRank()]));
}

void ProcessGroup::shutdown() {
  if (!group_ || !process_.is_here()) return;
  queue_->stop();
  group_->leave_for_good(member_->rank());
  hosts_.reset();
  member_.reset();
  group_.reset();
}

c10d::ErrorType ProcessGroup::getError() {
  return group_ && group_->world().aborted() ? c10d::ErrorType::COMM_ERROR : c10d::ErrorType::SUCCESS;
}

c10::intrusive_ptr<c10d::Backend> ProcessGroup::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                      const std::vector<int>& ranks,
                                                      const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  check_usable();
  const auto own = std::ranges::find(ranks, getRank());
  if (own == ranks.end()) return nullptr;
  std::vector<int> world_ranks;
  for (const int rank : ranks) world_ranks.push_back(identity_.world_ranks.at(static_cast<size_t>(rank)));
  return c10::make_intrusive<ProcessGroup>(store, static_cast<int>(own - ranks.begin()), std::move(world_ranks),
                                           group_->world().size(), options ? options->timeout : options_->timeout);
}

void ProcessGroup::check_usable() const {
  check_process(process_);
  TORCH_CHECK_VALUE(group_ != nullptr, "adjoin: this group has been destroyed");
}

WorkPtr ProcessGroup::barrier(const c10d::BarrierOptions& options) {
  return run(c10d::OpType::BARRIER, "adjoin:barrier", {}, {}, options,
             [](const Turn& turn) { turn.backend.run_collective(turn.call(Collective::barrier, {}, {}, at::kFloat)); });
}

void ProcessGroup::monitoredBarrier(const c10d::BarrierOptions& options, bool) {
  c10d::BarrierOptions waits = options;
  waits.asyncOp = false;
  try {
    barrier(waits)->wait();
  } catch (const c10::DistBackendError& error) {
    const std::string own = std::to_string(identity_.world_ranks[static_cast<size_t>(getRank())]);
    C10_THROW_ERROR(DistBackendError,
                    "Rank " + own + " timed out in monitoredBarrier: " + error.what_without_backtrace());
  }
}

WorkPtr ProcessGroup::send(Tensors& tensors, int to, int tag) {
  return message(c10d::OpType::SEND, "adjoin:send", tensors, to, tag);
}

WorkPtr ProcessGroup::recv(Tensors& tensors, int from, int tag) {
  return message(c10d::OpType::RECV, "adjoin:recv", tensors, from, tag);
}

WorkPtr ProcessGroup::recvAnysource(Tensors& tensors, int tag) {
  return message(c10d::OpType::RECVANYSOURCE, "adjoin:recvAnySource", tensors, -1, tag);
}

WorkPtr ProcessGroup::message(c10d::OpType op, const char* title, const Tensors& tensors, int peer, int tag) {
  check_usable();
  check_tensors(tensors);
  TORCH_CHECK_VALUE(tensors.size() == 1, "adjoin: a message is one tensor, got ", tensors.size());
  TORCH_CHECK_VALUE(tag >= 0, "adjoin: a tag is at least 0, got ", tag);
  const bool is_any = op == c10d::OpType::RECVANYSOURCE, is_send = op == c10d::OpType::SEND;
  TORCH_CHECK_VALUE(is_any || (peer >= 0 && peer < getSize()), "adjoin: the peer of a message is one of ", getSize(),
                    " ranks, got ", peer);
  TORCH_CHECK_VALUE(peer != getRank(), "adjoin: a rank sends no message to itself");
  if (hosts_) return hosts_->message(op, tensors[0], peer, tag);
  share(tensors[0]);
  host::notice_of_thread();
  const Message one[] = {is_send ? send_of({}, peer, tag) : receive_of({}, peer, tag)};
  Call call{.name = is_send ? "send" : "recv", .messages = one};
  call.moved_type = unit_of(tensors[0].scalar_type()).moved_type;
  call.where = python::find_caller().value_or(Where());
  call.rank = getRank();
  call.size = getSize();
  call.sequence = ++sequence_;
  call.group = &identity_;
  const at::AutoDispatchBelowADInplaceOrView plain;
  return c10::make_intrusive<MessageWork>(std::make_shared<Member>(group_, getRank()), op, title, tensors[0], call,
                                          options_->timeout);
}

}  // namespace adjoin::c10d_backend
