// Messages as MPI carries them: posted together, boxes and what MPI cannot count as derived types.

#include "adjoin/base/error.hpp"
#include "adjoin/comm/mpi/reductions.hpp"
#include "adjoin/comm/mpi/transport.hpp"

namespace adjoin::mpi {

namespace {

/// MPI's tags begin at 0.
int tag_of(const Message& message) {
  return message.tag - kCollectiveTag;
}

[[noreturn]] void throw_other(const Call& call, const Buffer& expected, const std::string& came) {
  throw CommunicationError(describe(call) + " on rank " + std::to_string(call.rank) + " of " +
                           std::to_string(call.size) + ": expected a message of " + describe(expected) + ", got " +
                           came);
}

/// Of a message in an exchange of which one has failed.
void check_error(const Message& message, int error, const Call& call) {
  if (error == MPI_SUCCESS || error == MPI_ERR_PENDING) return;
  int error_class = 0;
  MPI_Error_class(error, &error_class);
  if (error_class == MPI_ERR_TRUNCATE) throw_other(call, message.buffer, "a longer message");
  check_mpi(error, call.name);
}

}  // namespace

void Transport::carry(std::span<const Message> messages, const Call& call) {
  const bool has_headers = !call.collective && options_.checked;
  headers_.resize(has_headers ? messages.size() : 0);
  requests_.assign(messages.size() + headers_.size(), MPI_REQUEST_NULL);
  statuses_.resize(requests_.size());
  for (const bool sends : {false, true})  // so that what comes finds its place
    for (size_t i = 0; i < messages.size(); ++i) {
      if (messages[i].is_send() != sends) continue;
      if (has_headers) post_header(messages[i], i);
      post(messages[i], i);
    }
  const int code = MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), statuses_.data());
  for (size_t i = 0; i < messages.size() && code == MPI_ERR_IN_STATUS; ++i)
    check_error(messages[i], statuses_[i].MPI_ERROR, call);
  check_mpi(code, call.name);
  for (size_t i = 0; i < messages.size(); ++i) check_what_came(messages[i], i, call);
}

void Transport::post_header(const Message& m, size_t place) {
  Header& header = headers_[place];
  MPI_Request& request = requests_[requests_.size() - headers_.size() + place];
  if (m.is_send()) {
    header = {static_cast<int64_t>(m.buffer.type), m.buffer.count};
    check_mpi(MPI_Isend(&header, 2, MPI_INT64_T, m.peer, tag_of(m), comm_, &request), "send");
  } else {
    check_mpi(MPI_Irecv(&header, 2, MPI_INT64_T, m.peer, tag_of(m), comm_, &request), "recv");
  }
}

void Transport::post(const Message& m, size_t place) {
  const Buffer& buffer = m.buffer;
  int items = static_cast<int>(buffer.count);
  MPI_Datatype type = type_of(buffer.type);
  const bool is_box = !m.sizes.empty() && buffer.count > 0;
  if (is_box || buffer.count > options_.largest_piece) {
    const int64_t sizes[] = {buffer.count}, strides[] = {1};
    type =
        is_box ? box_types_.type_of(buffer.type, m.sizes, m.strides) : box_types_.type_of(buffer.type, sizes, strides);
    items = 1;
  }
  MPI_Request& request = requests_[place];
  if (m.is_send()) {
    const auto start = m.tag == kCollectiveTag ? MPI_Isend : MPI_Issend;
    check_mpi(start(buffer.data, items, type, m.peer, tag_of(m), comm_, &request), "send");
  } else {
    check_mpi(MPI_Irecv(buffer.data, items, type, m.peer, tag_of(m), comm_, &request), "recv");
  }
}

void Transport::check_what_came(const Message& message, size_t place, const Call& call) const {
  if (message.is_send()) return;
  const Buffer& expected = message.buffer;
  if (!headers_.empty()) {
    const ConstBuffer came{nullptr, headers_[place].count, static_cast<ElementType>(headers_[place].type)};
    if (came.type != expected.type || came.count != expected.count) throw_other(call, expected, describe(came));
  }
  MPI_Count bytes = 0;
  MPI_Get_elements_x(&statuses_[place], MPI_BYTE, &bytes);
  const int64_t size = size_of(expected.type);
  if (bytes != expected.bytes())
    throw_other(call, expected, bytes % size != 0 ? "another type" : std::to_string(bytes / size) + " elements");
}

}  // namespace adjoin::mpi
