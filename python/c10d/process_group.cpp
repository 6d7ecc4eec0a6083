#include "python/c10d/process_group.hpp"

#include <ATen/core/LegacyTypeDispatch.h>

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
  call.rank = member.rank();
  call.size = member.size();
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
    group_ = host::GroupWorld::meet(meeting, std::move(world_ranks), world_size);
    member_ = std::make_shared<Member>(group_, rank);
    member_->set_timeout(timeout);
    const Turn turn{*member_, identity_, Where(), 0};
    member_->run_collective(
        turn.call(Collective::barrier, {}, {}, at::kFloat));  // then nobody reads the store any more
    meeting.end();
  });
  queue_ = std::make_shared<Queue>();
  init();
}

void ProcessGroup::abort() {
  if (group_) member_->abort("this group was aborted by rank " + std::to_string(identity_.world_ranks[getRank()]));
}

void ProcessGroup::shutdown() {
  if (!group_ || !process_.is_here()) return;
  queue_->stop();
  group_->leave_for_good(getRank());
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
  TORCH_CHECK_VALUE(process_.is_here(), "adjoin: this group belongs to the process that made this one by fork()");
  TORCH_CHECK_VALUE(group_ != nullptr, "adjoin: this group has been destroyed");
}

WorkPtr ProcessGroup::barrier(const c10d::BarrierOptions& options) {
  return run(c10d::OpType::BARRIER, "adjoin:barrier", {}, {}, options,
             [](const Turn& turn) { turn.member.run_collective(turn.call(Collective::barrier, {}, {}, at::kFloat)); });
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
