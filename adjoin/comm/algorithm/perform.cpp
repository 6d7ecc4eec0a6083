#include "adjoin/comm/algorithm/perform.hpp"

#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/algorithm/programs.hpp"
#include "adjoin/comm/algorithm/rule.hpp"

namespace adjoin::algorithm {

namespace {

/// The counts of all ranks, a row a sender.
std::vector<int64_t> gather_counts(Backend& backend, std::span<const int64_t> send_counts) {
  const auto size = static_cast<size_t>(backend.size());
  std::vector<int64_t> all(size * size);
  const Request request{.collective = Collective::all_gather,
                        .size = backend.size(),
                        .counts = std::vector<int64_t>(size, backend.size())};
  run(program_of(request, "bruck", backend.rank()), backend, const_buffer(send_counts), buffer(all));
  return all;
}

/// Throws where a rank sends other than this one expects, into memory that this one has not.
void check_received(const Request& request, int rank, std::span<const int64_t> receive_counts) {
  const auto size = static_cast<size_t>(request.size), me = static_cast<size_t>(rank);
  for (size_t from = 0; from < size; ++from)
    if (const int64_t sent = request.counts[from * size + me]; sent != receive_counts[from])
      throw CommunicationError("all_to_all (bruck) on rank " + std::to_string(rank) + " of " + std::to_string(size) +
                               ": expected " + std::to_string(receive_counts[from]) + " elements from rank " +
                               std::to_string(from) + ", which sends " + std::to_string(sent));
}

}  // namespace

void perform(Request request, std::string_view algorithm, Backend& backend, ConstBuffer in, Buffer out,
             Reduction reduction) {
  if (algorithm == "auto") {
    const int64_t item = size_of(out.type);
    algorithm = choose(request.collective, request.size, elements_of(request) * item);
    if (request.chunk == 0) request.chunk = chunk_for(request.size, request.count, item);
  }
  run(program_of(request, algorithm, backend.rank()), backend, in, out, pairwise_of(reduction));
  const bool holds_result = request.collective != Collective::reduce || backend.rank() == request.root;
  if (has_reduction(request.collective) && holds_result) finish_reduction(out, reduction, request.size);
}

void perform_all_to_all(std::string_view algorithm, Backend& backend, ConstBuffer in,
                        std::span<const int64_t> send_counts, Buffer out, std::span<const int64_t> receive_counts) {
  if (algorithm == "bruck") {
    const Request request{
        .collective = Collective::all_to_all, .size = backend.size(), .counts = gather_counts(backend, send_counts)};
    check_received(request, backend.rank(), receive_counts);
    run(program_of(request, algorithm, backend.rank()), backend, in, out);
  } else {
    run(pairwise_all_to_all(backend.rank(), backend.size(), send_counts, receive_counts), backend, in, out);
  }
}

}  // namespace adjoin::algorithm
