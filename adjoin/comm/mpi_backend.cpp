#include "adjoin/comm/mpi_backend.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/mpi_shared.hpp"
#include "adjoin/comm/rank_order.hpp"

namespace adjoin {

using algorithm::total_of;

namespace {

/// A communicator that is freed when the last backend goes, unless MPI has gone before.
class OwnedComm {
 public:
  explicit OwnedComm(MPI_Comm comm) : comm_(comm) { MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN); }
  ~OwnedComm() {
    if (mpi_is_alive()) MPI_Comm_free(&comm_);
  }
  OwnedComm(const OwnedComm&) = delete;
  OwnedComm& operator=(const OwnedComm&) = delete;
  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_;
};

std::vector<int> as_ints(std::span<const int64_t> numbers) {
  return {numbers.begin(), numbers.end()};
}

bool are_equal(std::span<const int64_t> counts) {
  return std::all_of(counts.begin(), counts.end(), [&](int64_t count) { return count == counts[0]; });
}

std::string describe(const Buffer& buffer) {
  return std::string(name(buffer.type)) + " x " + std::to_string(buffer.count);
}

class MpiBackend final : public Backend {
 public:
  MpiBackend(std::shared_ptr<MpiShared> shared, MPI_Comm comm) : shared_(std::move(shared)), comm_(comm) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void exchange(std::span<const Message> messages) override {
    std::vector<MPI_Request> requests;
    std::vector<Buffer> received;
    requests.reserve(messages.size());
    received.reserve(messages.size());
    for (const Message& m : messages)
      if (m.kind == Message::Kind::receive) post(m, requests, &received);
    for (const Message& m : messages)
      if (m.kind == Message::Kind::send) post(m, requests, nullptr);
    std::vector<MPI_Status> statuses(requests.size());
    const int code = MPI_Waitall(static_cast<int>(requests.size()), requests.data(), statuses.data());
    if (code == MPI_ERR_IN_STATUS)
      for (const MPI_Status& status : statuses) check_mpi(status.MPI_ERROR, "exchange");
    check_mpi(code, "exchange");
    for (size_t i = 0; i < received.size(); ++i) check_length(received[i], statuses[i]);
  }

  std::shared_ptr<Backend> subset(std::span<const int> ranks) override {
    MPI_Group all, some;
    MPI_Comm comm;
    MPI_Comm_group(comm_.get(), &all);
    MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some);
    const int code = MPI_Comm_create_group(comm_.get(), some, 0, &comm);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    check_mpi(code, "subset");
    const auto backend = std::make_shared<MpiBackend>(shared_, comm);
    backend->set_deterministic(deterministic_);
    return backend;
  }

  void abort(std::string_view reason) noexcept override { shared_->end_job(std::string(reason), 1); }

  void barrier() override { check_mpi(MPI_Barrier(comm_.get()), "barrier"); }

  void broadcast(Buffer buffer, int root) override {
    for_each_piece(buffer.count, [&](int64_t begin, int count) {
      const Buffer piece = buffer.slice(begin, count);
      check_mpi(MPI_Bcast(piece.data, count, mpi_type(buffer.type), root, comm_.get()), "broadcast");
    });
  }

  void reduce(ConstBuffer in, Buffer out, Reduction reduction, int root) override {
    if (deterministic_) return reduce_in_rank_order(*this, in, out, reduction, root);
    const MPI_Op operation = shared_->operation(in.type, reduction);
    for_each_piece(in.count, [&](int64_t begin, int count) {
      const void* from = in.slice(begin, count).data;
      void* to = rank_ == root ? out.slice(begin, count).data : nullptr;
      if (rank_ == root && from == to) from = MPI_IN_PLACE;
      check_mpi(MPI_Reduce(from, to, count, mpi_type(in.type), operation, root, comm_.get()), "reduce");
    });
    if (rank_ == root) finish_reduction(out, reduction, size_);
  }

  void all_reduce(Buffer buffer, Reduction reduction) override {
    if (deterministic_) return all_reduce_in_rank_order(*this, buffer, reduction);
    const MPI_Op operation = shared_->operation(buffer.type, reduction);
    for_each_piece(buffer.count, [&](int64_t begin, int count) {
      void* piece = buffer.slice(begin, count).data;
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, piece, count, mpi_type(buffer.type), operation, comm_.get()), "all_reduce");
    });
    finish_reduction(buffer, reduction, size_);
  }

  void gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root) override {
    if (total_of(counts) > shared_->largest_piece) return Backend::gather(in, out, counts, root);
    const auto sizes = as_ints(counts), starts = as_ints(algorithm::starts_of(counts));
    const void* from = in.data;
    if (rank_ == root && in.count > 0 && from == own_block(out, counts)) from = MPI_IN_PLACE;
    check_mpi(MPI_Gatherv(from, static_cast<int>(in.count), mpi_type(in.type), out.data, sizes.data(), starts.data(),
                          mpi_type(in.type), root, comm_.get()),
              "gather");
  }

  void scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root) override {
    if (total_of(counts) > shared_->largest_piece) return Backend::scatter(in, out, counts, root);
    const auto sizes = as_ints(counts), starts = as_ints(algorithm::starts_of(counts));
    void* to = out.data;
    if (rank_ == root && out.count > 0 && to == own_block(in, counts)) to = MPI_IN_PLACE;
    check_mpi(MPI_Scatterv(in.data, sizes.data(), starts.data(), mpi_type(out.type), to, static_cast<int>(out.count),
                           mpi_type(out.type), root, comm_.get()),
              "scatter");
  }

  void all_gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts) override {
    if (total_of(counts) > shared_->largest_piece) return Backend::all_gather(in, out, counts);
    // MPI wants either all ranks in place or none, and each of ours may choose.
    void* own = const_cast<void*>(own_block(out, counts));
    if (in.count > 0 && in.data != own) std::memcpy(own, in.data, static_cast<size_t>(in.bytes()));
    if (are_equal(counts)) {  // MPI has quicker algorithms for those
      check_mpi(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out.data, static_cast<int>(in.count),
                              mpi_type(out.type), comm_.get()),
                "all_gather");
      return;
    }
    const auto sizes = as_ints(counts), starts = as_ints(algorithm::starts_of(counts));
    check_mpi(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out.data, sizes.data(), starts.data(),
                             mpi_type(out.type), comm_.get()),
              "all_gather");
  }

  void reduce_scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, Reduction reduction) override {
    if (deterministic_) return reduce_scatter_in_rank_order(*this, in, out, counts, reduction);
    if (total_of(counts) > shared_->largest_piece) return Backend::reduce_scatter(in, out, counts, reduction);
    const auto sizes = as_ints(counts);
    std::vector<char> block;  // MPI wants buffers that do not overlap
    void* to = out.data;
    if (out.count > 0 && to == own_block(in, counts)) {
      block.resize(static_cast<size_t>(out.bytes()));
      to = block.data();
    }
    check_mpi(MPI_Reduce_scatter(in.data, to, sizes.data(), mpi_type(in.type), shared_->operation(in.type, reduction),
                                 comm_.get()),
              "reduce_scatter");
    if (!block.empty()) std::memcpy(out.data, block.data(), block.size());
    finish_reduction(out, reduction, size_);
  }

  void all_to_all(ConstBuffer in, std::span<const int64_t> send_counts, Buffer out,
                  std::span<const int64_t> receive_counts) override {
    // As OpenMPI's own linear algorithm. MPI_Alltoallv counts in int, and whether that is enough no rank knows alone.
    const auto send_starts = algorithm::starts_of(send_counts), receive_starts = algorithm::starts_of(receive_counts);
    const auto own = static_cast<size_t>(rank_);
    std::vector<Message> messages;
    messages.reserve(2 * static_cast<size_t>(size_));
    for (int step = 1; step < size_; ++step) {
      const int to = (rank_ + step) % size_, from = (rank_ - step + size_) % size_;
      const auto t = static_cast<size_t>(to), f = static_cast<size_t>(from);
      const ConstBuffer sent = in.slice(send_starts[t], send_counts[t]);
      messages.push_back({Message::Kind::send,
                          to,
                          {const_cast<void*>(sent.data), sent.count, sent.type, sent.device},
                          kCollectiveTag});
      messages.push_back(
          {Message::Kind::receive, from, out.slice(receive_starts[f], receive_counts[f]), kCollectiveTag});
    }
    const ConstBuffer mine = in.slice(send_starts[own], send_counts[own]);
    if (mine.count > 0)
      std::memcpy(out.slice(receive_starts[own], 0).data, mine.data, static_cast<size_t>(mine.bytes()));
    exchange(messages);
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
      const int64_t count = std::min(total - begin, shared_->largest_piece);
      work(begin, static_cast<int>(count));
      begin += count;
    } while (begin < total);
  }

  void post(const Message& m, std::vector<MPI_Request>& requests, std::vector<Buffer>* received) const {
    const int tag = m.tag - kCollectiveTag;  // MPI's tags begin at 0
    for_each_piece(m.buffer.count, [&](int64_t begin, int count) {
      const Buffer piece = m.buffer.slice(begin, count);
      const MPI_Datatype type = mpi_type(piece.type);
      if (received) {
        received->push_back(piece);
        check_mpi(MPI_Irecv(piece.data, count, type, m.peer, tag, comm_.get(), &requests.emplace_back()), "recv");
      } else {
        const auto start = m.tag == kCollectiveTag ? MPI_Isend : MPI_Issend;
        check_mpi(start(piece.data, count, type, m.peer, tag, comm_.get(), &requests.emplace_back()), "send");
      }
    });
  }

  void check_length(const Buffer& expected, const MPI_Status& status) const {
    int count = 0;
    MPI_Get_count(&status, mpi_type(expected.type), &count);
    if (count != static_cast<int>(expected.count))
      throw CommunicationError("recv at " + std::string(where_.file_name()) + ":" + std::to_string(where_.line()) +
                               " on rank " + std::to_string(rank_) + " of " + std::to_string(size_) + ": expected " +
                               describe(expected) + " from rank " + std::to_string(status.MPI_SOURCE) + ", got " +
                               (count == MPI_UNDEFINED ? "another type" : std::to_string(count) + " elements"));
  }

  std::shared_ptr<MpiShared> shared_;
  OwnedComm comm_;
  int rank_ = 0, size_ = 1;
};

}  // namespace

MpiSession::MpiSession(int64_t largest_piece) {
  int initialized = 0, level = 0;
  MPI_Initialized(&initialized);
  if (!initialized) check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
  finalizes_ = !initialized;
  shared_ = std::make_shared<MpiShared>(largest_piece);
}

MpiSession::~MpiSession() {
  if (!mpi_is_alive()) return;
  shared_->release();
  if (finalizes_) MPI_Finalize();
}

std::shared_ptr<Backend> MpiSession::world() const {
  MPI_Comm comm;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  return std::make_shared<MpiBackend>(shared_, comm);
}

void MpiSession::end_job(const std::string& message, int exit_code) const noexcept {
  shared_->end_job(message, exit_code);
}

}  // namespace adjoin
