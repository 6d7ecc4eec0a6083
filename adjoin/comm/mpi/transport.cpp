#include "adjoin/comm/mpi/transport.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/process_owner.hpp"
#include "adjoin/comm/contract/diagnosis.hpp"
#include "adjoin/comm/mpi/host_parts.hpp"
#include "adjoin/comm/mpi/process_backend.hpp"
#include "adjoin/comm/mpi/types.hpp"

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

/// Throws for a message in an exchange in which one has failed.
void check_error(const Message& message, int error, const Call& call) {
  if (error == MPI_SUCCESS || error == MPI_ERR_PENDING) return;
  note_mpi_failure();
  int error_class = 0;
  MPI_Error_class(error, &error_class);
  if (error_class == MPI_ERR_TRUNCATE) throw_other(call, message.buffer, "a longer message");
  check_mpi(error, call.name);
}

[[noreturn]] void throw_mismatch(const Group& group, const Call& call) {
  std::array<char, 256> mine{};
  describe(call).copy(mine.data(), mine.size() - 1);
  std::vector<diagnosis::Line> calls;
  for (const auto& text : gather_all(group.comm(), mine))
    calls.push_back({group.world_ranks()[calls.size()], text.data()});
  throw CommunicationError("mismatched collectives" +
                           diagnosis::group_name(group.world_ranks(), group.shared()->world_size) + ":" +
                           diagnosis::list_of(calls));
}

/// Whether the ranks of an all_to_all send what their peers expect to receive.
bool counts_fit(const Group& group, const Call& call) {
  std::vector<int64_t> sent_to_me(call.counts.size());
  check_mpi(MPI_Alltoall(call.counts.data(), 1, MPI_INT64_T, sent_to_me.data(), 1, MPI_INT64_T, group.comm()),
            "MPI_Alltoall");
  const auto fit = gather_all(group.comm(), static_cast<char>(std::ranges::equal(sent_to_me, call.receive_counts)));
  return std::ranges::count(fit, 0) == 0;
}

}  // namespace

Transport::Transport(std::shared_ptr<Group> group, std::shared_ptr<Agent> agent)
    : InJob(std::move(group), std::move(agent)),
      comm_(group_->comm()),
      options_(group_->shared()->options),
      rank_(group_->rank()),
      size_(static_cast<int>(group_->world_ranks().size())),
      one_a_host_(group_->is_one_a_host()),
      box_types_(options_.largest_piece) {
  const HostParts* parts = group_->parts();
  if (parts && parts->own) part_ = std::make_unique<ProcessBackend>(parts->own, agent_);
  if (parts && parts->leaders) leaders_ = std::make_unique<Transport>(parts->leaders, agent_);
}

Transport::~Transport() = default;

void Transport::exchange(std::span<const Message> messages, const Call& call) {
  if (call.collective) return carry(messages, call);  // which is watched itself
  const Watched watched(*agent_, group_->entry(), call);
  carry(messages, call);
}

class Transport::PostedSend final : public OwnSend {
 public:
  PostedSend(std::shared_ptr<Transport> transport, const Message& message, const Call& call)
      : OwnSend(message, call), transport_(std::move(transport)) {
    transport_->group_->shared()->sends.fetch_add(1);
    const Watched watched(*transport_->agent_, transport_->group_->entry(), call_);
    if (transport_->options_.checked) transport_->post_header(message_, header_, requests_[1]);
    transport_->post(message_, requests_[0]);
  }
  ~PostedSend() override {
    if (!process_.is_here()) return;
    end();
    transport_->group_->shared()->sends.fetch_sub(1);
  }
  void wait() override {
    process_.require_here(std::string(call_.name));
    check_mpi(finish(), call_.name);
  }
  bool done() override {
    if (!process_.is_here()) return false;
    int is_done = 0;
    MPI_Testall(2, requests_, &is_done, MPI_STATUSES_IGNORE);
    return is_done != 0;
  }

 private:
  void end() {
    if (done()) return;
    if (std::uncaught_exceptions() == 0) {
      finish();
      return;
    }
    for (MPI_Request& request : requests_)  // whoever catches the exception reports the cause and ends the job
      if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }
  int finish() {
    const Watched watched(*transport_->agent_, transport_->group_->entry(), call_, Watched::Part::end);
    const int codes[] = {MPI_Wait(&requests_[0], MPI_STATUS_IGNORE), MPI_Wait(&requests_[1], MPI_STATUS_IGNORE)};
    return codes[0] != MPI_SUCCESS ? codes[0] : codes[1];
  }

  const std::shared_ptr<Transport> transport_;
  Header header_;
  MPI_Request requests_[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};  // of the message, and of its header
};

std::unique_ptr<PendingSend> Transport::begin_send(const Message& message, const Call& call) {
  return std::make_unique<PostedSend>(std::static_pointer_cast<Transport>(shared_from_this()), message, call);
}

void Transport::run_collective(const Call& call) {
  const Watched watched(*agent_, group_->entry(), call);
  if (options_.checked && size_ > 1) check_all_call_alike(call);
  if (!call.algorithm.empty() || !is_countable(call)) return Backend::run_collective(call);
  if (goes_by_parts(call)) return call_by_parts(call);
  one_a_host_ ? call_between_hosts(call) : call_mpi(call);
}

void Transport::carry(std::span<const Message> messages, const Call& call) {
  const bool has_headers = !call.collective && options_.checked;
  headers_.resize(has_headers ? messages.size() : 0);
  requests_.assign(messages.size() + headers_.size(), MPI_REQUEST_NULL);
  statuses_.resize(requests_.size());
  for (const bool sends : {false, true})  // receives first, so that incoming data finds its place
    for (size_t i = 0; i < messages.size(); ++i) {
      if (messages[i].is_send() != sends) continue;
      if (has_headers) post_header(messages[i], headers_[i], requests_[messages.size() + i]);
      post(messages[i], requests_[i]);
    }
  // One after another: OpenMPI 4.1's MPI_Waitall may wait forever where a message is longer than expected.
  for (size_t i = 0; i < requests_.size(); ++i) {
    const int code = MPI_Wait(&requests_[i], &statuses_[i]);
    if (i < messages.size()) check_error(messages[i], code, call);
    check_mpi(code, call.name);
  }
  for (size_t i = 0; i < messages.size(); ++i) check_what_came(messages[i], i, call);
}

void Transport::post_header(const Message& m, Header& header, MPI_Request& request) const {
  if (m.is_send()) {
    header = {static_cast<int64_t>(m.buffer.type), m.buffer.count};
    check_mpi(MPI_Isend(&header, 2, MPI_INT64_T, m.peer, tag_of(m), comm_, &request), "send");
  } else {
    check_mpi(MPI_Irecv(&header, 2, MPI_INT64_T, m.peer, tag_of(m), comm_, &request), "recv");
  }
}

void Transport::post(const Message& m, MPI_Request& request) {
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

void Transport::check_all_call_alike(const Call& call) const {
  const Group& group = *group_;
  const std::vector<Signature> all = gather_all(group.comm(), signature_of(call));
  const bool agree = std::ranges::all_of(all, [&](const Signature& other) { return other == all[0]; });
  if (!agree || (call.collective == Collective::all_to_all && !counts_fit(group, call))) throw_mismatch(group, call);
}

}  // namespace adjoin::mpi
