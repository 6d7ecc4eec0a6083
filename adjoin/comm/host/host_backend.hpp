#pragma once

#include <array>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <vector>

#include "adjoin/base/copying.hpp"
#include "adjoin/base/process_owner.hpp"
#include "adjoin/comm/contract/backend.hpp"
#include "adjoin/comm/host/group.hpp"

namespace adjoin {

/// One worker's view of a group of ranks that reach each other's memory, threads or processes of one host.
///
/// Collectives work on each other's buffers in place, by blocks, without messages: ranks publish their calls, meet, each does
/// its share, and they meet again. A small message travels with the published call and needs only the first meeting. Reductions
/// go in rank order, and 16-bit floats are combined in float32 and rounded once, so results repeat bit for bit. Calls that do
/// not agree end the world at once with every pending call. Where a process gives memory that its peers do not reach, such as a
/// stack or memory from malloc, it is copied to and from memory that they do reach.
class HostBackend : public Backend {
 public:
  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  void exchange(std::span<const Message> messages, const Call& call) override;
  /// Sends are left to their receivers; for all else the ranks meet.
  std::unique_ptr<Pending> begin(const Call& call) override;
  void run_collective(const Call& call) override;
  /// Compares the call with those of all ranks, and moves nothing.
  /// Throws: CommunicationError on all ranks where they differ
  void compare(const Call& call);
  bool reduces_in_rank_order() const override { return true; }
  /// Threads do, but for the algorithms of the catalogue.
  bool takes_devices(const Call& call) const override;

 protected:
  HostBackend(std::shared_ptr<host::Group> group, int rank);
  /// begin() for messages of any kind, into memory that the peers reach: whoever posts a message second copies it, so each is
  /// done as soon as both sides have posted it. A receive's peer may be -1: any rank.
  class PostedMessages;
  std::unique_ptr<PostedMessages> begin_messages(const Call& call);
  /// The waiter of the thread that calls.
  virtual host::Waiter& waiter() = 0;

 private:
  /// What this rank does in a collective, between meeting all ranks and finishing: a function for each kind.
  class Work;
  /// Publishes the collective, meets all ranks, does its share, and finishes.
  /// `shown` is what the peers see: it differs from `call` in the memory that they do not reach. Where any rank needs pieces, all
  /// go on to run_in_pieces instead of doing their share.
  void run_in_place(const Call& shown, const Call& call, bool needs_pieces);
  /// Whether peers would work on memory of this process that they do not reach.
  bool needs_pieces(const Call& call) const;
  /// Carries out a collective on memory that peers may not reach.
  void run_in_pieces(const Call& call);
  class Pieces;
  void exchange_in_pieces(const Call& call);
  void reduce_scatter_in_pieces(const Call& call);
  void gather_in_pieces(const Call& call);
  void reduce_in_pieces(const Call& call);
  void reduce_piece(const Call& piece);
  /// Room for two pieces.
  void* stage();
  /// For memory of devices: what is done between the two meetings is enqueued, and no thread waits for a device.
  void run_on_device(const Call& call);
  void enqueue_share(const Call& call, Device device) const;

  struct Share {
    int64_t begin, count;
  };
  /// The elements that this rank works on in a collective whose work is not divided by the counts.
  Share own_share(int64_t count) const;
  /// Whether each rank's input travels with its call.
  bool is_small(const Call& call) const;
  const host::PublishedCall& call_of(int rank) const { return group_->call_of(rank, sequence_); }
  void* output_of(const Call& call, int peer) const { return peer == rank_ ? call.out.data : call_of(peer).out; }
  /// The address of each rank's input and output, plus `offset` bytes; those of this rank are the call's.
  const std::vector<const void*>& inputs(const Call& call, int64_t offset);
  const std::vector<void*>& outputs(const Call& call, int64_t offset);

  /// Posts all messages, with copies of data that peers could not read. The copies must live as long as the postings.
  [[nodiscard]] host::Room post_all(std::span<const Message> messages, const Call& call, host::Postings& postings,
                                    bool are_begun = false);
  void post(host::Posting& mine);
  /// False where a peer has matched it and is about to finish it.
  bool take_back(host::Posting& posting);
  void wait_for(const host::Postings& postings);
  void copy_matched(const host::Postings& postings);
  void copy_on_device(host::Posting& posting);

  const std::shared_ptr<host::Group> group_;
  const int rank_;
  uint64_t sequence_ = 0;  // number of the latest collective
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::array<std::pmr::vector<int64_t>, 2> counts_;  // shown in the latest two calls
  host::Postings postings_;
  std::optional<host::Room> stage_;  // made when first needed
};

/// Does what may fail because a device has failed, in `call` or before it: a device tells so later.
/// Throws: CommunicationError that names the call
void on_device(const Call& call, const std::function<void()>& work);

/// What peers read of messages that were begun. An exchange has it on its stack.
class HostBackend::PostedMessages final : public Pending {
 public:
  PostedMessages(std::shared_ptr<HostBackend> backend, const Call& call);
  ~PostedMessages() override;
  void wait() override { backend_->wait_for(postings_); }
  bool done() override { return postings_.pending().left.load() == 0; }
  /// The other rank of the first message.
  int peer() const { return postings_.all()[0].message.peer; }

 private:
  const ProcessOwner process_;
  const std::shared_ptr<HostBackend> backend_;
  host::Postings postings_;
  const host::Room copies_;
};

}  // namespace adjoin
