#include "adjoin/comm/mpi/posted.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "adjoin/base/box.hpp"
#include "adjoin/base/error.hpp"
#include "adjoin/comm/mpi/group.hpp"

namespace adjoin::mpi {

namespace {

/// A long message has this many pieces whatever its length, and its first piece is longer than any short message. So where one
/// side expects another length than the other sends, two pieces that meet differ in length, and nobody waits for a piece that
/// never comes.
constexpr int64_t kPieces = 16;
constexpr int64_t kShort = 256 << 10;  // bytes

/// MPI's tags begin at 0.
int tag_of(const Message& message) {
  return message.tag - kCollectiveTag;
}

Buffer piece_of(const Buffer& all, int64_t piece) {
  const int64_t first = std::max(kShort / size_of(all.type) + 1, all.count / kPieces), rest = all.count - first;
  if (piece == 0) return all.slice(0, first);
  const auto begin = [&](int64_t p) { return first + rest * (p - 1) / (kPieces - 1); };
  return all.slice(begin(piece), begin(piece + 1) - begin(piece));
}

[[noreturn]] void throw_other(const Call& call, const Buffer& expected, const std::string& came) {
  throw CommunicationError(describe(call) + " on rank " + std::to_string(call.rank) + " of " +
                           std::to_string(call.size) + ": expected a message of " + describe(expected) + ", got " +
                           came);
}

}  // namespace

Channel::Channel(const Group& group)
    : comm(group.comm()), options(group.shared()->options), box_types(options.largest_piece) {
  const MpiShared& shared = *group.shared();
  const auto host = [&](int rank) { return shared.host_of[static_cast<size_t>(rank)]; };
  for (const int rank : group.world_ranks()) is_on_other_host.push_back(host(rank) != host(shared.world_rank));
}

bool Posted::goes_in_pieces(const Message& message) const {
  return message.buffer.bytes() > kShort && channel_.is_on_other_host[static_cast<size_t>(message.peer)];
}

void Posted::post(std::span<const Message> messages, const Call& call) {
  messages_ = messages;
  call_ = &call;
  requests_.clear();
  copies_.clear();
  headers_.resize(!call.collective && channel_.options.checked ? messages.size() : 0);
  came_.assign(messages.size(), 0);
  if (std::ranges::any_of(messages, [&](const Message& message) { return goes_in_pieces(message); }))
    return post_in_turn();
  for (const auto kind : {Message::Kind::receive, Message::Kind::send})  // so that incoming data finds its place
    for (size_t i = 0; i < messages.size(); ++i)
      if (messages[i].kind == kind) post_header(i), post_elements(i, elements_of(i));
}

/// Messages from one rank to another with one tag are a sequence, whose order both sides know. Posts one piece of each sequence
/// in turn.
void Posted::post_in_turn() {
  const size_t count = messages_.size();
  std::vector<size_t> before(count, count);  // the one before it in its sequence
  std::vector<int64_t> posted(count), pieces(count);
  const auto is_whole = [&](size_t place) { return posted[place] == pieces[place]; };
  std::map<std::tuple<Message::Kind, int, int>, size_t> last;
  for (size_t i = 0; i < count; ++i) {
    const Message& m = messages_[i];
    pieces[i] = goes_in_pieces(m) ? kPieces : 1;
    const auto [at, is_first] = last.try_emplace({m.kind, m.peer, m.tag}, i);
    if (!is_first) before[i] = std::exchange(at->second, i);
  }
  for (size_t left = count; left > 0;)
    for (const auto kind : {Message::Kind::receive, Message::Kind::send})
      for (size_t i = 0; i < count; ++i) {
        if (messages_[i].kind != kind || is_whole(i) || (before[i] < count && !is_whole(before[i]))) continue;
        if (posted[i] == 0) post_header(i);
        post_elements(i, pieces[i] == 1 ? elements_of(i) : piece_of(contiguous(i), posted[i]));
        ++posted[i];
        if (is_whole(i)) --left;
      }
}

/// The memory of a message that goes whole. OpenMPI 4.1 takes a stride of -1 byte for the size of an element.
Buffer Posted::elements_of(size_t place) {
  const Message& m = messages_[place];
  const bool runs_back = size_of(m.buffer.type) == 1 && std::ranges::count(m.strides, -1) > 0;
  return runs_back ? contiguous(place) : m.buffer;
}

/// The memory of a message, of a box a copy.
Buffer Posted::contiguous(size_t place) {
  const Message& m = messages_[place];
  if (m.sizes.empty()) return m.buffer;
  copies_.resize(messages_.size());
  std::unique_ptr<char[]>& copy = copies_[place];
  if (!copy) {
    copy = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(m.buffer.bytes()));
    if (m.is_send()) copy_box(copy.get(), {}, {}, m.buffer.data, m.sizes, m.strides, size_of(m.buffer.type));
  }
  return {copy.get(), m.buffer.count, m.buffer.type};
}

void Posted::post_header(size_t place) {
  if (headers_.empty()) return;
  const Message& m = messages_[place];
  Header& header = headers_[place];
  if (m.is_send()) header = {static_cast<int64_t>(m.buffer.type), m.buffer.count};
  MPI_Request& request = requests_.emplace_back(place, /*is_header=*/true).request;
  check_mpi(m.is_send() ? MPI_Isend(&header, 2, MPI_INT64_T, m.peer, tag_of(m), channel_.comm, &request)
                        : MPI_Irecv(&header, 2, MPI_INT64_T, m.peer, tag_of(m), channel_.comm, &request),
            m.is_send() ? "send" : "recv");
}

/// Posts these elements of a message.
void Posted::post_elements(size_t place, const Buffer& elements) {
  const Message& m = messages_[place];
  int items = static_cast<int>(elements.count);
  MPI_Datatype type = type_of(elements.type);
  const bool is_box = !m.sizes.empty() && elements.data == m.buffer.data && elements.count > 0;
  if (is_box || elements.count > channel_.options.largest_piece) {
    const int64_t sizes[] = {elements.count}, strides[] = {1};
    type = is_box ? channel_.box_types.type_of(elements.type, m.sizes, m.strides)
                  : channel_.box_types.type_of(elements.type, sizes, strides);
    items = 1;
  }
  MPI_Request& request = requests_.emplace_back(place).request;
  if (m.is_send()) {
    const auto start = m.tag == kCollectiveTag ? MPI_Isend : MPI_Issend;
    check_mpi(start(elements.data, items, type, m.peer, tag_of(m), channel_.comm, &request), "send");
  } else {
    check_mpi(MPI_Irecv(elements.data, items, type, m.peer, tag_of(m), channel_.comm, &request), "recv");
  }
}

void Posted::end(Request& request, int code, const MPI_Status& status) {
  request.has_ended = true;
  request.code = code;
  if (request.is_header || code != MPI_SUCCESS || messages_[request.message].is_send()) return;
  MPI_Count bytes = 0;
  MPI_Get_elements_x(&status, MPI_BYTE, &bytes);
  came_[request.message] += bytes;
}

bool Posted::have_ended() {
  for (Request& request : requests_) {
    int is_over = 0;
    MPI_Status status;
    const int code = request.has_ended ? MPI_SUCCESS : MPI_Test(&request.request, &is_over, &status);
    if (is_over != 0 || code != MPI_SUCCESS) end(request, code, status);
    if (!request.has_ended || has_failed(request)) return request.has_ended;
  }
  return true;
}

/// Whether finish() throws at this request. What came whole, as another length was sent, has no other pieces.
bool Posted::has_failed(const Request& request) const {
  const Message& m = messages_[request.message];
  return (request.code != MPI_SUCCESS && request.code != MPI_ERR_PENDING) ||
         (!m.is_send() && !request.is_header && goes_in_pieces(m) && came_[request.message] <= kShort);
}

/// One after another: OpenMPI 4.1's MPI_Waitall may wait forever where a message is longer than expected.
void Posted::finish() {
  for (Request& request : requests_) {
    MPI_Status status;
    if (!request.has_ended) end(request, MPI_Wait(&request.request, &status), status);
    if (!has_failed(request)) continue;
    check(request);
    check_what_came(request.message);
  }
  for (size_t i = 0; i < messages_.size(); ++i)
    if (!messages_[i].is_send()) check_what_came(i);
  for (size_t i = 0; i < copies_.size(); ++i) {
    const Message& m = messages_[i];
    if (copies_[i] && !m.is_send())
      copy_box(m.buffer.data, m.sizes, m.strides, copies_[i].get(), {}, {}, size_of(m.buffer.type));
  }
}

void Posted::check(const Request& request) const {
  if (request.code == MPI_SUCCESS) return;
  note_mpi_failure();
  int error_class = 0;
  MPI_Error_class(request.code, &error_class);
  if (error_class == MPI_ERR_TRUNCATE && !request.is_header)
    throw_other(*call_, messages_[request.message].buffer, "a longer message");
  check_mpi(request.code, call_->name);
}

void Posted::check_what_came(size_t place) const {
  const Buffer& expected = messages_[place].buffer;
  if (!headers_.empty()) {
    const ConstBuffer came{nullptr, headers_[place].count, static_cast<ElementType>(headers_[place].type)};
    if (came.type != expected.type || came.count != expected.count) throw_other(*call_, expected, describe(came));
  }
  const int64_t bytes = came_[place], size = size_of(expected.type);
  if (bytes != expected.bytes())
    throw_other(*call_, expected, bytes % size != 0 ? "another type" : std::to_string(bytes / size) + " elements");
}

void Posted::abandon() {
  for (Request& request : requests_)
    if (!request.has_ended && request.request != MPI_REQUEST_NULL) MPI_Request_free(&request.request);
}

}  // namespace adjoin::mpi
