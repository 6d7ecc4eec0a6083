#include "adjoin/comm/algorithm/perform.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/algorithm/catalogue.hpp"
#include "adjoin/comm/algorithm/programs.hpp"
#include "adjoin/comm/algorithm/rank_order.hpp"

namespace adjoin::algorithm {

namespace {

/// The counts of all ranks, a row a sender.
std::vector<int64_t> gather_counts(const Call& all_to_all, Backend& backend) {
  const auto size = static_cast<size_t>(all_to_all.size);
  std::vector<int64_t> all(size * size);
  const std::vector<int64_t> rows(size, all_to_all.size);
  Call call = all_to_all;
  call.collective = Collective::all_gather;
  call.in = const_buffer(all_to_all.counts);
  call.out = buffer(all);
  call.counts = rows;
  call.receive_counts = {};
  perform(call, backend);
  return all;
}

/// Throws where a rank sends other than this one expects, into memory that this one has not.
void check_received(const Call& call, std::span<const int64_t> sent) {
  for (int from = 0; from < call.size; ++from) {
    const auto place = static_cast<size_t>(from);
    if (const int64_t count = sent[place * static_cast<size_t>(call.size) + static_cast<size_t>(call.rank)];
        count != call.receive_counts[place])
      throw CommunicationError("all_to_all (bruck) on rank " + std::to_string(call.rank) + " of " +
                               std::to_string(call.size) + ": expected " + std::to_string(call.receive_counts[place]) +
                               " elements from rank " + std::to_string(from) + ", which sends " +
                               std::to_string(count));
  }
}

Program all_to_all_program(const Call& call, Backend& backend) {
  if (call.algorithm != "bruck") return pairwise_all_to_all(call.rank, call.size, call.counts, call.receive_counts);
  const std::vector<int64_t> sent = gather_counts(call, backend);
  check_received(call, sent);
  return bruck_all_to_all({.collective = Collective::all_to_all, .size = call.size, .counts = sent}, call.rank);
}

Program program_for(const Call& call, Backend& backend) {
  if (call.collective == Collective::all_to_all) return all_to_all_program(call, backend);
  return program_of({.collective = *call.collective,
                     .size = call.size,
                     .root = std::max(call.root, 0),
                     .count = call.elements().count,
                     .counts = {call.counts.begin(), call.counts.end()},
                     .chunk = call.chunk},
                    call.algorithm, call.rank);
}

}  // namespace

void choose_for(Call& call) {
  const ConstBuffer elements = call.elements();
  const int64_t count = call.counts.empty() ? elements.count : total_of(call.counts), item = size_of(elements.type);
  call.algorithm = choose(*call.collective, call.size, count * item);
  if (call.chunk == 0) call.chunk = chunk_for(call.size, elements.count, item);
}

void perform(const Call& call, Backend& backend) {
  if (call.algorithm == kRankOrder) return reduce_in_rank_order(call, backend);
  if (call.algorithm.empty()) {
    Call chosen = call;
    choose_for(chosen);
    return perform(chosen, backend);
  }
  run(program_for(call, backend), backend, call);
  const bool holds_result = call.collective != Collective::reduce || call.rank == call.root;
  if (has_reduction(*call.collective) && holds_result) finish_reduction(call.out, call.reduction, call.size);
}

}  // namespace adjoin::algorithm
