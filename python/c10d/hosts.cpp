#include "python/c10d/hosts.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/fixed_text.hpp"
#include "adjoin/base/processes.hpp"
#include "adjoin/comm/contract/diagnosis.hpp"
#include "python/c10d/work.hpp"

namespace adjoin::c10d_backend {

namespace {

/// The tag of messages of collectives, which those of users can hardly have.
constexpr int kTag = std::numeric_limits<int>::max();
constexpr auto kEnd = "adjoin/end";

c10::intrusive_ptr<c10d::PrefixStore> part_of(const StorePtr& store, const char* name) {
  return c10::make_intrusive<c10d::PrefixStore>(name, store);
}

at::Tensor bytes_at(const void* data, int64_t bytes) {
  return at::from_blob(const_cast<void*>(data), {bytes}, at::kByte);
}

}  // namespace

MakeGloo& make_gloo() {
  static auto& make = *new MakeGloo;  // it holds an object of Python, which may end before
  return make;
}

std::vector<int> first_ranks_of_hosts(host::Meeting& meeting, const std::vector<int>& world_ranks) {
  const char* word = std::getenv("ADJOIN_TEST_RANKS_OF_A_HOST");
  const int of_a_host = word ? std::max(std::atoi(word), 0) : 0, own = world_ranks[static_cast<size_t>(meeting.rank())];
  const auto hosts = meeting.exchange(id_of_machine() + (of_a_host > 0 ? "/" + std::to_string(own / of_a_host) : ""));
  std::vector<int> first;
  for (const std::string& host : hosts)
    first.push_back(static_cast<int>(std::ranges::find(hosts, host) - hosts.begin()));
  return first;
}

Network::Works Network::post(std::span<const Message> messages) const {
  Works works;
  for (const Message& message : messages) {
    if (message.buffer.count == 0) continue;
    std::vector<at::Tensor> one{bytes_at(message.buffer.data, message.buffer.bytes())};
    works.push_back(message.is_send() ? gloo_->send(one, message.peer, kTag) : gloo_->recv(one, message.peer, kTag));
  }
  return works;
}

void Network::wait(const Works& works) const {
  for (const auto& work : works) work->wait(member_.timeout());
}

void Network::close() const noexcept {
  try {  // gloo closes them where a wait is over its time
    std::vector<at::Tensor> none{at::empty({1}, at::kByte)};
    gloo_->recv(none, gloo_->getRank() == 0 ? 1 : 0, kTag - 1)->wait(std::chrono::milliseconds(1));
  } catch (const std::exception&) {
  }
}

/// The first ranks of the parts.
class Hosts::Leaders final : public Backend {
 public:
  Leaders(const Hosts& of, Gloo gloo) : of_(of), network_(std::move(gloo), *of.part_) {}

  int rank() const override { return network_.gloo().getRank(); }
  int size() const override { return network_.gloo().getSize(); }
  void exchange(std::span<const Message> messages, const Call&) override { network_.wait(network_.post(messages)); }
  std::shared_ptr<Backend> subset(std::span<const int>, const Call&) override { return nullptr; }
  void abort(std::string_view) noexcept override { network_.close(); }

  /// Waits until all have come to a call.
  /// Throws: CommunicationError where their calls differ
  void compare(const Call& call);

 private:
  struct Told {
    int rank = 0;
    Signature signature;
    FixedText<300> text;
  };

  const Hosts& of_;
  const Network network_;
};

void Hosts::Leaders::compare(const Call& call) {
  struct Meeting {
    host::Parking parking;
    std::atomic<bool> is_over = false;
  };
  Call placed = call;
  if (call.where.line() == 0) placed.where = python::find_caller().value_or(Where());
  const Told own{of_.world_ranks_[static_cast<size_t>(of_.rank_)], signature_of(call), describe(placed)};
  at::Tensor mine = bytes_at(&own, sizeof(own)).clone(), all = at::empty({size() * mine.numel()}, at::kByte);
  network_.gloo().setTimeout(of_.part_->timeout());
  const auto work = network_.gloo()._allgather_base(all, mine);
  const auto meeting = std::make_shared<Meeting>();
  work->getFuture()->addCallback([meeting](c10::ivalue::Future&) {
    meeting->is_over.store(true);
    meeting->parking.wake();
  });
  of_.part_->await(meeting->parking, {.is_over = [&] { return meeting->is_over.load(); },
                                      .needs = [] { return std::vector<int>(); },
                                      .describe = [&] { return describe(placed); }});
  work->wait();
  std::vector<diagnosis::Line> calls;
  bool differ = false;
  for (int host = 0; host < size(); ++host) {
    Told told;
    std::memcpy(&told, all.const_data_ptr<uint8_t>() + static_cast<size_t>(host) * sizeof(told), sizeof(told));
    differ |= !(told.signature == own.signature);
    calls.push_back({told.rank, std::string(std::string_view(told.text))});
  }
  if (differ) throw CommunicationError("mismatched collectives of hosts:" + diagnosis::list_of(calls));
}

Hosts::Hosts(std::shared_ptr<Member> part, const std::vector<int>& first_ranks, std::vector<int> world_ranks,
             StorePtr store, int rank, std::chrono::milliseconds timeout)
    : part_(std::move(part)),
      parts_{first_ranks, first_ranks[static_cast<size_t>(rank)]},
      world_ranks_(std::move(world_ranks)),
      store_(std::move(store)),
      rank_(rank),
      all_(make_gloo()(part_of(store_, "all"), rank, size(), timeout), *part_) {
  if (rank == parts_.own_leader) {
    std::vector<int> leaders = parts_.leader_of;
    std::ranges::sort(leaders);
    const auto hosts = static_cast<int>(std::unique(leaders.begin(), leaders.end()) - leaders.begin());
    leaders_ = std::make_shared<Leaders>(
        *this, make_gloo()(part_of(store_, "leaders"), parts_.place_of_leader(rank), hosts, timeout));
  }
  by_parts_.emplace(parts_, part_->size() > 1 ? part_.get() : nullptr, leaders_.get());
}

/// Messages of a collective: to other hosts by the network, beside those within the part.
void Hosts::exchange(std::span<const Message> messages, const Call& call) {
  std::vector<Message> near, far;
  for (Message message : messages) {
    if (!parts_.has(message.peer)) {
      far.push_back(message);
      continue;
    }
    message.peer = parts_.rank_in_part(message.peer);
    near.push_back(message);
  }
  const Network::Works works = all_.post(far);
  part_->HostBackend::exchange(near, call);
  all_.wait(works);
}

c10::intrusive_ptr<c10d::Work> Hosts::message(c10d::OpType op, const at::Tensor& tensor, int peer, int tag) {
  if (part_->world().aborted()) run_translated([&] { part_->world().throw_aborted(); });
  const bool is_send = op == c10d::OpType::SEND;
  TORCH_CHECK_VALUE(is_send || tensor.is_contiguous(),
                    "adjoin: in a group over several hosts a tensor that is received must be contiguous");
  std::vector<at::Tensor> one{is_send ? tensor.contiguous() : tensor};
  c10d::Backend& gloo = all_.gloo();
  if (is_send) return gloo.send(one, peer, tag);
  return op == c10d::OpType::RECV ? gloo.recv(one, peer, tag) : gloo.recvAnysource(one, tag);
}

void Hosts::run_collective(const Call& call) {
  try {
    part_->compare(call);
    if (leaders_) leaders_->compare(call);
    carry_out(call);
  } catch (const std::exception& error) {
    end(error.what());
    part_->world().throw_aborted();
  }
}

void Hosts::carry_out(const Call& call) {
  if (by_parts_->takes(call)) return by_parts_->run(call);
  Call direct = call;  // each block goes to its rank at once
  direct.algorithm = call.collective == Collective::all_to_all                                         ? "pairwise"
                     : call.collective == Collective::gather || call.collective == Collective::scatter ? "naive"
                                                                                                       : "";
  if (call.collective == Collective::all_to_all) check_counts(call);
  Backend::run_collective(direct);
}

/// Gathers what all ranks send to all.
void Hosts::check_counts(const Call& call) {
  const auto ranks = static_cast<size_t>(size());
  std::vector<int64_t> own(call.counts.begin(), call.counts.end()), all(ranks * ranks);
  const std::vector<int64_t> rows(ranks, size());
  Call gather = call;
  gather.collective = Collective::all_gather;
  gather.in = {own.data(), size(), ElementType::int64};
  gather.out = {all.data(), static_cast<int64_t>(all.size()), ElementType::int64};
  gather.counts = rows;
  gather.receive_counts = {};
  by_parts_->takes(gather) ? by_parts_->run(gather) : Backend::run_collective(gather);
  for (size_t from = 0; from < ranks; ++from) {
    const int64_t sent = all[from * ranks + static_cast<size_t>(rank_)];
    if (sent == call.receive_counts[from]) continue;
    throw CommunicationError("mismatched collectives:\n  rank " + std::to_string(world_ranks_[from]) + ": sends " +
                             std::to_string(sent) + " elements to rank " +
                             std::to_string(world_ranks_[static_cast<size_t>(rank_)]) + "\n  rank " +
                             std::to_string(world_ranks_[static_cast<size_t>(rank_)]) + ": " + describe(call));
  }
}

void Hosts::end(const std::string& reason) noexcept {
  std::string first = reason;
  try {
    first = store_->compareSet(kEnd, "", reason);
  } catch (const std::exception&) {  // the store is gone
  }
  part_->world().end(first);
  all_.close();
  if (leaders_) leaders_->abort(first);
}

}  // namespace adjoin::c10d_backend
