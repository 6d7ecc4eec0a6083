#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "adjoin/comm/call.hpp"
#include "adjoin/comm/mpi/box_types.hpp"
#include "adjoin/comm/mpi/mpi_backend.hpp"
#include "adjoin/comm/mpi/pending_table.hpp"

namespace adjoin::mpi {

/// Calls `work(begin, count)` for pieces of at most `most` elements; once for none at all.
template <class Work>
void for_each_piece(int64_t total, int64_t most, Work work) {
  int64_t begin = 0;
  do {
    const int64_t count = std::min(total - begin, most);
    work(begin, static_cast<int>(count));
    begin += count;
  } while (begin < total);
}

/// Messages as MPI carries them: posted together, long ones in pieces, boxes as derived types. What was allocated for one
/// exchange is kept for the next.
class Messages {
 public:
  Messages(MPI_Comm comm, const MpiOptions& options) : comm_(comm), options_(options) {}

  /// Returns when all are done. Each that is noted in `watched`, unless that is nullptr.
  /// Throws: CommunicationError where one is longer or shorter than expected; in checked mode, of users' messages, where
  ///         it has another type
  void exchange(std::span<const Message> messages, const Call& call, AgentEntry* watched);

 private:
  /// What goes before each message of users in checked mode, as MPI itself compares only lengths.
  struct Header {
    int64_t type = 0, count = 0;
  };

  MPI_Request& add(size_t place, const Buffer& received);
  void post_header(const Message& message, size_t place, int tag);
  void post(const Message& message, size_t place);
  size_t wait_for_some(const Call& call, AgentEntry* watched);
  void check_header(const Message& message, const Header& header, const Call& call) const;
  void check_status(int code, const Buffer& piece, const Call& call) const;
  void check_length(const Buffer& expected, const MPI_Status& status, const Call& call) const;

  const MPI_Comm comm_;
  const MpiOptions& options_;
  BoxTypes box_types_;
  std::vector<MPI_Request> requests_;  // one for each piece of each message
  std::vector<Buffer> received_;       // by each request; no memory where it sends
  std::vector<size_t> message_of_;     // its place in the exchange
  std::vector<Header> headers_;        // of each message in checked mode
  std::vector<int> done_;              // the requests that one wait ended, and how
  std::vector<MPI_Status> statuses_;
};

}  // namespace adjoin::mpi
