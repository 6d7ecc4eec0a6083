// The collectives of HostBackend on memory of devices: each rank enqueues its share on its own stream, between two meetings of the
// threads. A stream waits only for events that were recorded before, so what is enqueued always ends without any thread.

#include <exception>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/host/host_backend.hpp"
#include "adjoin/comm/host/world.hpp"

namespace adjoin {

using algorithm::start_of;

namespace {

/// The device of this rank's elements.
Device device_of(const Call& call) {
  const ConstBuffer own = call.elements(), other = call.collective == Collective::scatter ? call.in : call.out;
  const bool has_other = call.root < 0 || call.rank == call.root;
  return own.count == 0 && has_other && other.count > 0 ? other.device : own.device;
}

void enqueue_copy(const Buffer& to, const ConstBuffer& from) {
  if (to.count > 0 && to.data != from.data) device_runtime()->copy_box(to, {}, {}, from, {}, {});
}

}  // namespace

void on_device(const Call& call, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    throw CommunicationError(describe(call) + ": a device has failed, in this call or before: " + error.what());
  }
}

bool HostBackend::takes_devices(const Call& call) const {
  return !group_->world().is_of_processes() && call.algorithm.empty() && device_runtime();
}

void HostBackend::run_on_device(const Call& call) {
  const Device device = device_of(call);
  host::Group::DeviceEvents& mine = group_->device_events(rank_);
  if (!mine.ready) mine = {device_runtime()->new_event(), device_runtime()->new_event()};
  on_device(call, [&] { mine.ready->record(device); });
  sequence_ = group_->publish(rank_, call, 0, counts_[0]);
  std::swap(counts_[0], counts_[1]);
  group_->meet_to_work(waiter(), rank_, sequence_);
  std::exception_ptr error;
  try {
    on_device(call, [&] {
      for (int peer = 0; peer < size(); ++peer) group_->device_events(peer).ready->block(device);
      enqueue_share(call, device);
      mine.done->record(device);
    });
  } catch (const CommunicationError&) {  // its peers wait for it in the second meeting
    error = std::current_exception();
  }
  group_->finish(waiter(), rank_, sequence_);
  on_device(call, [&] {
    for (int peer = 0; peer < size(); ++peer) group_->device_events(peer).done->block(device);
  });
  if (error) std::rethrow_exception(error);
}

/// Only what it writes in another rank's memory must be apart from what the others read and write; where its own output is a part
/// of its input, that is the part that it alone reads.
void HostBackend::enqueue_share(const Call& call, Device device) const {
  const auto of = [&](int peer) -> const Call& { return *call_of(peer).call; };
  const auto reduce = [&](int64_t begin, int64_t count, const std::vector<Buffer>& outs) {
    std::vector<ConstBuffer> inputs;
    for (int peer = 0; peer < size(); ++peer) inputs.push_back(of(peer).in.slice(begin, count));
    if (size() == 1 && !is_logical(call.reduction)) return enqueue_copy(outs[0], inputs[0]);
    if (count > 0) device_runtime()->reduce_all_into(device, outs, inputs, call.reduction);
  };
  const int64_t all = call.in.count, begin = all * rank_ / size(), count = all * (rank_ + 1) / size() - begin;
  std::vector<Buffer> outs;
  switch (*call.collective) {
    case Collective::barrier:
      return;
    case Collective::broadcast:
      return enqueue_copy(call.out, of(call.root).in);
    case Collective::reduce:
      return reduce(begin, count, {of(call.root).out.slice(begin, count)});
    case Collective::all_reduce:
      for (int peer = 0; peer < size(); ++peer) outs.push_back(of(peer).out.slice(begin, count));
      return reduce(begin, count, outs);
    case Collective::gather:
      return enqueue_copy(of(call.root).out.slice(start_of(call.counts, rank_), all), call.in);
    case Collective::scatter:
      return enqueue_copy(call.out, of(call.root).in.slice(start_of(call.counts, rank_), call.out.count));
    case Collective::all_gather:
      for (int peer = 0; peer < size(); ++peer)
        enqueue_copy(call.out.slice(start_of(call.counts, peer), call.counts[static_cast<size_t>(peer)]), of(peer).in);
      return;
    case Collective::reduce_scatter:
      return reduce(start_of(call.counts, rank_), call.out.count, {call.out});
    case Collective::all_to_all:
      for (int peer = 0; peer < size(); ++peer) {
        const int64_t received = call.receive_counts[static_cast<size_t>(peer)];
        enqueue_copy(call.out.slice(start_of(call.receive_counts, peer), received),
                     of(peer).in.slice(start_of(of(peer).counts, rank_), received));
      }
      return;
  }
}

}  // namespace adjoin
