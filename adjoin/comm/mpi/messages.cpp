#include "adjoin/comm/mpi/messages.hpp"

#include "adjoin/base/error.hpp"
#include "adjoin/comm/mpi/shared.hpp"

namespace adjoin::mpi {

namespace {

[[noreturn]] void throw_other(const Call& call, const Buffer& expected, const std::string& came) {
  throw CommunicationError(describe(call) + " on rank " + std::to_string(call.rank) + " of " +
                           std::to_string(call.size) + ": expected a message of " + describe(expected) + ", got " +
                           came);
}

}  // namespace

void Messages::exchange(std::span<const Message> messages, const Call& call, AgentEntry* watched) {
  requests_.clear();
  received_.clear();
  message_of_.clear();
  headers_.clear();
  if (!call.collective && options_.checked) headers_.resize(messages.size());
  for (const bool sends : {false, true})  // so that what comes finds its place
    for (size_t i = 0; i < messages.size(); ++i)
      if (messages[i].is_send() == sends) post(messages[i], i);
  done_.resize(requests_.size());
  statuses_.resize(requests_.size());
  for (size_t left = requests_.size(); left > 0;) left -= wait_for_some(call, watched);
  for (size_t i = 0; i < headers_.size(); ++i) check_header(messages[i], headers_[i], call);
}

MPI_Request& Messages::add(size_t place, const Buffer& received) {
  message_of_.push_back(place);
  received_.push_back(received);
  return requests_.emplace_back();
}

void Messages::post_header(const Message& m, size_t place, int tag) {
  Header& header = headers_[place];
  MPI_Request& request = add(place, {});
  if (m.is_send()) {
    header = {static_cast<int64_t>(m.buffer.type), m.buffer.count};
    check_mpi(MPI_Isend(&header, 2, MPI_INT64_T, m.peer, tag, comm_, &request), "send");
  } else {
    check_mpi(MPI_Irecv(&header, 2, MPI_INT64_T, m.peer, tag, comm_, &request), "recv");
  }
}

void Messages::post(const Message& m, size_t place) {
  const int tag = m.tag - kCollectiveTag;  // MPI's tags begin at 0
  if (!headers_.empty()) post_header(m, place, tag);
  for_each_piece(m.buffer.count, options_.largest_piece, [&](int64_t begin, int count) {
    const bool is_box = !m.sizes.empty() && count > 0;
    const Buffer piece = m.buffer.slice(is_box ? 0 : begin, count);
    const MPI_Datatype type = is_box ? box_types_.type_of(m, begin, count) : mpi_type(piece.type);
    const int items = is_box ? 1 : count;
    if (m.is_send()) {
      const auto start = m.tag == kCollectiveTag ? MPI_Isend : MPI_Issend;
      check_mpi(start(piece.data, items, type, m.peer, tag, comm_, &add(place, {})), "send");
    } else {
      check_mpi(MPI_Irecv(piece.data, items, type, m.peer, tag, comm_, &add(place, piece)), "recv");
    }
  });
}

/// Waits for one request or more; how many.
size_t Messages::wait_for_some(const Call& call, AgentEntry* watched) {
  int count = 0;
  const int code =
      MPI_Waitsome(static_cast<int>(requests_.size()), requests_.data(), &count, done_.data(), statuses_.data());
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) check_mpi(code, "exchange");
  for (int n = 0; n < count; ++n) {
    const MPI_Status& status = statuses_[static_cast<size_t>(n)];
    const auto i = static_cast<size_t>(done_[static_cast<size_t>(n)]);
    if (code == MPI_ERR_IN_STATUS) check_status(status.MPI_ERROR, received_[i], call);
    const bool is_last_piece = i + 1 == message_of_.size() || message_of_[i + 1] != message_of_[i];
    if (watched && is_last_piece && requests_.size() > 1) write_message_done(*watched, message_of_[i]);
    if (received_[i].data) check_length(received_[i], status, call);
  }
  return static_cast<size_t>(count);
}

void Messages::check_header(const Message& message, const Header& header, const Call& call) const {
  const ConstBuffer came{nullptr, header.count, static_cast<ElementType>(header.type)};
  if (came.type != message.buffer.type || came.count != message.buffer.count)
    throw_other(call, message.buffer, describe(came));
}

void Messages::check_status(int code, const Buffer& piece, const Call& call) const {
  if (code == MPI_SUCCESS || code == MPI_ERR_PENDING) return;
  int error_class = 0;
  MPI_Error_class(code, &error_class);
  if (error_class == MPI_ERR_TRUNCATE) throw_other(call, piece, "a longer message");
  check_mpi(code, "exchange");
}

void Messages::check_length(const Buffer& expected, const MPI_Status& status, const Call& call) const {
  int count = 0;
  MPI_Get_count(&status, mpi_type(expected.type), &count);
  if (count != static_cast<int>(expected.count))
    throw_other(call, expected, count == MPI_UNDEFINED ? "another type" : std::to_string(count) + " elements");
}

}  // namespace adjoin::mpi
