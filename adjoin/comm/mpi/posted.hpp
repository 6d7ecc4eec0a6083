#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "adjoin/base/not_copied.hpp"
#include "adjoin/comm/contract/call.hpp"
#include "adjoin/comm/mpi/mpi_backend.hpp"
#include "adjoin/comm/mpi/types.hpp"

namespace adjoin::mpi {

class Group;

/// How the messages of one group go.
struct Channel : NotCopied {
  explicit Channel(const Group& group);

  const MPI_Comm comm;
  const MpiOptions& options;
  std::vector<bool> is_on_other_host;  // for each rank of the group
  BoxTypes box_types;
};

/// Messages that were posted together. It may be used again once they have ended.
///
/// A long message to another host goes in pieces, and the pieces of both directions are posted in turn. So both directions of a
/// cable are used: where each side posts one long message, the permission to send that OpenMPI gives over TCP waits behind the
/// data of the other direction, and only half of the cable is used.
class Posted : NotCopied {
 public:
  explicit Posted(Channel& channel) : channel_(channel) {}

  /// `call` is what the messages belong to. Both must live until the messages have ended.
  void post(std::span<const Message> messages, const Call& call);
  /// Whether finish() need not wait.
  bool have_ended();
  /// Waits for all messages, and until one of them fails.
  /// Throws: CommunicationError where another message came than was expected
  void finish();
  /// Leaves messages that have not ended to MPI.
  void abandon();

 private:
  /// In checked mode it goes before each message of users, as MPI itself compares only lengths.
  struct Header {
    int64_t type = 0, count = 0;
  };
  struct Request {
    size_t message;  // its place among the messages
    bool is_header = false, has_ended = false;
    int code = MPI_SUCCESS;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  bool goes_in_pieces(const Message& message) const;
  Buffer elements_of(size_t place);
  void post_in_turn();
  Buffer contiguous(size_t place);
  void post_header(size_t place);
  void post_elements(size_t place, const Buffer& elements);
  void end(Request& request, int code, const MPI_Status& status);
  bool has_failed(const Request& request) const;
  void check(const Request& request) const;
  void check_what_came(size_t place) const;

  Channel& channel_;
  std::span<const Message> messages_;
  const Call* call_ = nullptr;
  std::vector<Request> requests_;
  std::vector<Header> headers_;                  // one for each message, or none
  std::vector<int64_t> came_;                    // bytes of each message
  std::vector<std::unique_ptr<char[]>> copies_;  // of boxes that MPI does not describe
};

}  // namespace adjoin::mpi
