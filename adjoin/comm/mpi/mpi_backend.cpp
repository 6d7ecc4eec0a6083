#include "adjoin/comm/mpi/mpi_backend.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/collective.hpp"
#include "adjoin/comm/mpi/agreement.hpp"
#include "adjoin/comm/mpi/box_types.hpp"
#include "adjoin/comm/mpi/group.hpp"
#include "adjoin/comm/mpi/shared.hpp"

namespace adjoin {

using algorithm::total_of;

namespace {

std::vector<int> as_ints(std::span<const int64_t> numbers) {
  return {numbers.begin(), numbers.end()};
}

bool are_equal(std::span<const int64_t> counts) {
  return std::all_of(counts.begin(), counts.end(), [&](int64_t count) { return count == counts[0]; });
}

std::string describe(const Buffer& buffer) {
  return std::string(name(buffer.type)) + " x " + std::to_string(buffer.count);
}

/// Copies in pieces, for which the C library's memcpy does not write past the caches as it does for long ones: what was
/// sent and received is partly there, and in the caches this is up to a tenth of a large collective quicker.
void copy_cached(void* to, ConstBuffer from) {
  constexpr int64_t kPiece = 128 << 10;
  char* out = static_cast<char*>(to);
  const char* in = static_cast<const char*>(from.data);
  for (int64_t begin = 0; begin < from.bytes(); begin += kPiece)
    std::memcpy(out + begin, in + begin, static_cast<size_t>(std::min(kPiece, from.bytes() - begin)));
}

class MpiBackend final : public Backend {
 public:
  MpiBackend(std::shared_ptr<mpi::Group> group, std::shared_ptr<mpi::Agent> agent)
      : group_(std::move(group)), agent_(std::move(agent)), comm_(group_->comm()), options_(group_->shared()->options) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void begin_call(Operation& operation) override {
    agent_->owner().check(operation);
    Backend::begin_call(operation);
    const bool is_collective = collective_named(operation.name).has_value();
    if (mpi::AgentEntry* entry = agent_->entry()) {
      mpi::write_call(*entry, group_->id(), operation);
      if (is_collective && group_->entry()) mpi::write_collective(*entry, *group_->entry());
    }
    if (is_collective && options_.checked && size_ > 1) mpi::check_agreement(comm_, operation, group_->world_ranks());
  }

  void end_call() override {
    if (mpi::AgentEntry* entry = agent_->entry()) mpi::write_end(*entry);
    Backend::end_call();
  }

  std::shared_ptr<Backend> for_thread(bool is_for_any_thread) override {
    int level = 0;
    MPI_Query_thread(&level);
    require(level == MPI_THREAD_MULTIPLE,
            "threads of one rank that communicate at once need MPI at thread level multiple, which it does not offer");
    return std::make_shared<MpiBackend>(group_, std::make_shared<mpi::Agent>(group_->shared(), is_for_any_thread));
  }

  void rest(bool rests) noexcept override { agent_->rest(rests); }

  void exchange(std::span<const Message> messages) override {
    const bool is_users = !messages.empty() && messages[0].tag != kCollectiveTag;
    if (mpi::AgentEntry* entry = agent_->entry(); entry && is_users && group_->entry())
      mpi::write_messages(*entry, *group_->entry(), rank_, messages);
    requests_.clear();
    if (is_users && options_.checked) requests_.headers.resize(messages.size());
    for (const auto kind : {Message::Kind::receive, Message::Kind::send})  // so that what comes finds its place
      for (size_t i = 0; i < messages.size(); ++i)
        if (messages[i].kind == kind) post(messages[i], i);
    requests_.done.resize(requests_.all.size());
    requests_.statuses.resize(requests_.all.size());
    for (size_t left = requests_.all.size(); left > 0;) left -= wait_for_some();
    for (size_t i = 0; i < requests_.headers.size(); ++i) check_header(messages[i], requests_.headers[i]);
  }

  std::shared_ptr<Backend> subset(std::span<const int> ranks) override {
    if (mpi::AgentEntry* entry = agent_->entry(); entry && group_->entry())
      mpi::write_subset(*entry, *group_->entry(), ranks);
    return std::make_shared<MpiBackend>(group_->subset(ranks), agent_);
  }

  bool is_checked() const override { return options_.checked; }

  void abort(std::string_view reason) noexcept override { group_->shared()->end_job(std::string(reason), 1); }

  void barrier() override { check_mpi(MPI_Barrier(comm_), "barrier"); }

  void broadcast(Buffer buffer, int root) override {
    for_each_piece(buffer.count, [&](int64_t begin, int count) {
      const Buffer piece = buffer.slice(begin, count);
      check_mpi(MPI_Bcast(piece.data, count, mpi_type(buffer.type), root, comm_), "broadcast");
    });
  }

  void reduce(ConstBuffer in, Buffer out, Reduction reduction, int root) override {
    const MPI_Op operation = group_->shared()->operation(in.type, reduction);
    for_each_piece(in.count, [&](int64_t begin, int count) {
      const void* from = in.slice(begin, count).data;
      void* to = rank_ == root ? out.slice(begin, count).data : nullptr;
      if (rank_ == root && from == to) from = MPI_IN_PLACE;
      check_mpi(MPI_Reduce(from, to, count, mpi_type(in.type), operation, root, comm_), "reduce");
    });
    if (rank_ == root) finish_reduction(out, reduction, size_);
  }

  void all_reduce(Buffer buffer, Reduction reduction) override {
    const MPI_Op operation = group_->shared()->operation(buffer.type, reduction);
    for_each_piece(buffer.count, [&](int64_t begin, int count) {
      void* piece = buffer.slice(begin, count).data;
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, piece, count, mpi_type(buffer.type), operation, comm_), "all_reduce");
    });
    finish_reduction(buffer, reduction, size_);
  }

  void gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root) override {
    if (total_of(counts) > options_.largest_piece) return Backend::gather(in, out, counts, root);
    const auto sizes = as_ints(counts), starts = as_ints(algorithm::starts_of(counts));
    const void* from = in.data;
    if (rank_ == root && in.count > 0 && from == own_block(out, counts)) from = MPI_IN_PLACE;
    check_mpi(MPI_Gatherv(from, static_cast<int>(in.count), mpi_type(in.type), out.data, sizes.data(), starts.data(),
                          mpi_type(in.type), root, comm_),
              "gather");
  }

  void scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root) override {
    if (total_of(counts) > options_.largest_piece) return Backend::scatter(in, out, counts, root);
    const auto sizes = as_ints(counts), starts = as_ints(algorithm::starts_of(counts));
    void* to = out.data;
    if (rank_ == root && out.count > 0 && to == own_block(in, counts)) to = MPI_IN_PLACE;
    check_mpi(MPI_Scatterv(in.data, sizes.data(), starts.data(), mpi_type(out.type), to, static_cast<int>(out.count),
                           mpi_type(out.type), root, comm_),
              "scatter");
  }

  void all_gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts) override {
    if (total_of(counts) > options_.largest_piece) return Backend::all_gather(in, out, counts);
    void* own = const_cast<void*>(own_block(out, counts));
    const auto place_own = [&] {
      if (in.data != own) copy_cached(own, in);
    };
    if (size_ == 2) {  // as OpenMPI does, but each rank may be in place or not
      const int peer = 1 - rank_;
      const Buffer theirs = out.slice(rank_ == 0 ? counts[0] : 0, counts[static_cast<size_t>(peer)]);
      exchange(std::array{sent_to(peer, in), Message{Message::Kind::receive, peer, theirs, kCollectiveTag}});
      return place_own();
    }
    place_own();              // so that all ranks are in place, which MPI wants of all or none
    if (are_equal(counts)) {  // MPI has quicker algorithms for those
      check_mpi(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out.data, static_cast<int>(in.count),
                              mpi_type(out.type), comm_),
                "all_gather");
      return;
    }
    const auto sizes = as_ints(counts), starts = as_ints(algorithm::starts_of(counts));
    check_mpi(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out.data, sizes.data(), starts.data(),
                             mpi_type(out.type), comm_),
              "all_gather");
  }

  void reduce_scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, Reduction reduction) override {
    if (total_of(counts) > options_.largest_piece) return Backend::reduce_scatter(in, out, counts, reduction);
    const auto sizes = as_ints(counts);
    std::vector<char> block;  // MPI wants buffers that do not overlap
    void* to = out.data;
    if (out.count > 0 && to == own_block(in, counts)) {
      block.resize(static_cast<size_t>(out.bytes()));
      to = block.data();
    }
    const MPI_Op operation = group_->shared()->operation(in.type, reduction);
    // OpenMPI has other algorithms for equal blocks, measured to be up to four times as slow below this, and quicker above.
    constexpr int64_t kLarge = 32 << 20;
    check_mpi(in.bytes() >= kLarge && are_equal(counts)
                  ? MPI_Reduce_scatter_block(in.data, to, sizes[0], mpi_type(in.type), operation, comm_)
                  : MPI_Reduce_scatter(in.data, to, sizes.data(), mpi_type(in.type), operation, comm_),
              "reduce_scatter");
    if (!block.empty()) std::memcpy(out.data, block.data(), block.size());
    finish_reduction(out, reduction, size_);
  }

  void all_to_all(ConstBuffer in, std::span<const int64_t> send_counts, Buffer out,
                  std::span<const int64_t> receive_counts) override {
    // As OpenMPI's own linear algorithm. MPI_Alltoallv counts in int, and whether that is enough no rank knows alone.
    messages_.clear();
    ConstBuffer own_in;
    Buffer own_out;
    int64_t sent = 0, received = 0;
    for (int peer = 0; peer < size_; ++peer) {
      const ConstBuffer from = in.slice(sent, send_counts[static_cast<size_t>(peer)]);
      const Buffer to = out.slice(received, receive_counts[static_cast<size_t>(peer)]);
      sent += from.count;
      received += to.count;
      if (peer == rank_) {
        own_in = from, own_out = to;
      } else {
        messages_.push_back(sent_to(peer, from));
        messages_.push_back({Message::Kind::receive, peer, to, kCollectiveTag});
      }
    }
    exchange(messages_);
    copy_cached(own_out.data, own_in);
  }

 private:
  const void* own_block(ConstBuffer all, std::span<const int64_t> counts) const {
    return all.slice(total_of(counts.first(static_cast<size_t>(rank_))), 0).data;
  }

  /// Calls `work(begin, count)` for pieces of at most largest_piece elements; once for none at all.
  template <class Work>
  void for_each_piece(int64_t total, Work work) const {
    int64_t begin = 0;
    do {
      const int64_t count = std::min(total - begin, options_.largest_piece);
      work(begin, static_cast<int>(count));
      begin += count;
    } while (begin < total);
  }

  static Message sent_to(int peer, ConstBuffer what) {
    return {
        Message::Kind::send, peer, {const_cast<void*>(what.data), what.count, what.type, what.device}, kCollectiveTag};
  }

  /// What goes before each message of users in checked mode, as MPI itself compares only lengths.
  struct Header {
    int64_t type = 0, count = 0;
  };

  /// What MPI was asked for by an exchange: a request for each piece of each message. Kept from one to the next, as they
  /// are small most often.
  struct Requests {
    std::vector<MPI_Request> all;
    std::vector<Buffer> pieces;      // of each request; no memory where it is a send
    std::vector<size_t> message_of;  // its place in the exchange
    std::vector<int> done;           // those that one wait ended, and how
    std::vector<MPI_Status> statuses;

    std::vector<Header> headers;  // of each message in checked mode

    void clear() {
      all.clear();
      pieces.clear();
      message_of.clear();
      headers.clear();
    }
  };

  void post_header(const Message& m, size_t place, int tag) {
    Header& header = requests_.headers[place];
    MPI_Request& request = requests_.all.emplace_back();
    requests_.message_of.push_back(place);
    requests_.pieces.push_back({});
    if (m.kind == Message::Kind::receive) {
      check_mpi(MPI_Irecv(&header, 2, MPI_INT64_T, m.peer, tag, comm_, &request), "recv");
    } else {
      header = {static_cast<int64_t>(m.buffer.type), m.buffer.count};
      check_mpi(MPI_Isend(&header, 2, MPI_INT64_T, m.peer, tag, comm_, &request), "send");
    }
  }

  void post(const Message& m, size_t place) {
    const int tag = m.tag - kCollectiveTag;  // MPI's tags begin at 0
    if (!requests_.headers.empty()) post_header(m, place, tag);
    for_each_piece(m.buffer.count, [&](int64_t begin, int count) {
      const bool is_box = !m.sizes.empty() && count > 0;
      const Buffer piece = is_box ? m.buffer.slice(0, count) : m.buffer.slice(begin, count);
      const MPI_Datatype type = is_box ? box_types_.type_of(m, begin, count) : mpi_type(piece.type);
      const int items = is_box ? 1 : count;
      requests_.message_of.push_back(place);
      MPI_Request& request = requests_.all.emplace_back();
      if (m.kind == Message::Kind::receive) {
        requests_.pieces.push_back(piece);
        check_mpi(MPI_Irecv(piece.data, items, type, m.peer, tag, comm_, &request), "recv");
      } else {
        requests_.pieces.push_back({});
        const auto start = m.tag == kCollectiveTag ? MPI_Isend : MPI_Issend;
        check_mpi(start(piece.data, items, type, m.peer, tag, comm_, &request), "send");
      }
    });
  }

  /// Waits for one request or more; how many.
  size_t wait_for_some() {
    int count = 0;
    const int code = MPI_Waitsome(static_cast<int>(requests_.all.size()), requests_.all.data(), &count,
                                  requests_.done.data(), requests_.statuses.data());
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) check_mpi(code, "exchange");
    for (int n = 0; n < count; ++n) {
      const MPI_Status& status = requests_.statuses[static_cast<size_t>(n)];
      const auto i = static_cast<size_t>(requests_.done[static_cast<size_t>(n)]);
      if (code == MPI_ERR_IN_STATUS) check_status(status.MPI_ERROR, requests_.pieces[i]);
      const bool is_last_piece =
          i + 1 == requests_.message_of.size() || requests_.message_of[i + 1] != requests_.message_of[i];
      if (mpi::AgentEntry* entry = agent_->entry(); entry && is_last_piece && requests_.all.size() > 1)
        mpi::write_message_done(*entry, requests_.message_of[i]);
      if (requests_.pieces[i].data) check_length(requests_.pieces[i], status);
    }
    return static_cast<size_t>(count);
  }

  void check_header(const Message& message, const Header& header) const {
    const Buffer came{nullptr, header.count, static_cast<ElementType>(header.type)};
    if (came.type != message.buffer.type || came.count != message.buffer.count)
      throw_wrong_length(message.buffer, describe(came));
  }

  void check_status(int code, const Buffer& piece) const {
    if (code == MPI_SUCCESS || code == MPI_ERR_PENDING) return;
    int error_class = 0;
    MPI_Error_class(code, &error_class);
    if (error_class == MPI_ERR_TRUNCATE) throw_wrong_length(piece, "a longer message");
    check_mpi(code, "exchange");
  }

  void check_length(const Buffer& expected, const MPI_Status& status) const {
    int count = 0;
    MPI_Get_count(&status, mpi_type(expected.type), &count);
    if (count != static_cast<int>(expected.count))
      throw_wrong_length(expected, count == MPI_UNDEFINED ? "another type" : std::to_string(count) + " elements");
  }

  [[noreturn]] void throw_wrong_length(const Buffer& expected, const std::string& came) const {
    throw CommunicationError((call_ ? adjoin::describe(*call_) : "exchange") + " on rank " + std::to_string(rank_) +
                             " of " + std::to_string(size_) + ": expected a message of " + describe(expected) +
                             ", got " + came);
  }

  const std::shared_ptr<mpi::Group> group_;
  const std::shared_ptr<mpi::Agent> agent_;
  const MPI_Comm comm_;
  const MpiOptions& options_;
  int rank_ = 0, size_ = 1;
  Requests requests_;
  mpi::BoxTypes box_types_;
  std::vector<Message> messages_;  // of an all_to_all, kept as the requests are
};

}  // namespace

MpiSession::MpiSession(const MpiOptions& options) {
  int initialized = 0, level = 0;
  MPI_Initialized(&initialized);
  require(!initialized || mpi_is_alive(),
          "MPI was finalised, by an earlier launch or by the program, and cannot be initialised again in this process: "
          "initialise it before the first launch to launch several times");
  if (!initialized) check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
  finalizes_ = !initialized;
  shared_ = std::make_shared<MpiShared>(options);
}

MpiSession::~MpiSession() {
  if (!mpi_is_alive()) return;
  shared_->leave();
  shared_->release();
  if (finalizes_) MPI_Finalize();
}

std::shared_ptr<Backend> MpiSession::world() const {
  MPI_Comm comm;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  std::vector<int> all(static_cast<size_t>(shared_->world_size));
  std::iota(all.begin(), all.end(), 0);
  return std::make_shared<MpiBackend>(std::make_shared<mpi::Group>(shared_, comm, /*id=*/1, std::move(all)),
                                      std::make_shared<mpi::Agent>(shared_, /*is_for_any_thread=*/false));
}

void MpiSession::end_job(const std::string& message, int exit_code) const noexcept {
  shared_->end_job(message, exit_code);
}

}  // namespace adjoin
