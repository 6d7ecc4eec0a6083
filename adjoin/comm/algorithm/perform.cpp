#include "adjoin/comm/algorithm/perform.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/algorithm/catalogue.hpp"
#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/algorithm/programs.hpp"

namespace adjoin::algorithm {

namespace {

bool reduces(const Transfer& transfer) {
  return transfer.kind == Transfer::Kind::receive_and_reduce;
}

/// Reduces what a step has received: for each slice, the received elements and those in place, in the order of ranks.
/// `messages` are those of the step's transfers.
template <class At>
void reduce_arrived(const Step& step, std::span<const Message> messages, const Call& call, At at) {
  std::vector<std::pair<int, const void*>> operands;  // by rank
  std::vector<const void*> in_order;
  for (size_t i = 0; i < step.transfers.size(); ++i) {
    const Transfer& first = step.transfers[i];
    const auto is_same = [&](const Transfer& t) { return reduces(t) && t.slice == first.slice; };
    if (!reduces(first) || std::any_of(&step.transfers[0], &first, is_same)) continue;
    const Buffer own = at(first.slice);
    operands.assign(1, {call.rank, own.data});
    for (size_t j = i; j < step.transfers.size(); ++j)
      if (is_same(step.transfers[j])) operands.emplace_back(step.transfers[j].peer, messages[j].buffer.data);
    std::sort(operands.begin(), operands.end());
    in_order.clear();
    for (const auto& [rank, data] : operands) in_order.push_back(data);
    reduce_all_into(own, in_order, pairwise_of(call.reduction));
  }
}

/// Turns `call` into one of the backend's own collectives, which is used as a part of it.
Call part_of(const Call& call, Collective collective, ConstBuffer in, Buffer out, std::span<const int64_t> counts) {
  Call part = call;
  part.collective = collective;
  part.algorithm = {};
  part.in = in;
  part.out = out;
  part.counts = counts;
  return part;
}

void reduce_own_block(const Call& call, Backend& backend, std::span<const int64_t> counts, Buffer out) {
  const auto ranks = static_cast<size_t>(call.size);
  std::vector<char> arrived(ranks * static_cast<size_t>(out.bytes()));
  const Buffer blocks{arrived.data(), call.size * out.count, out.type};
  const std::vector<int64_t> received(ranks, out.count);
  Call exchanged = part_of(call, Collective::all_to_all, call.in, blocks, counts);
  exchanged.receive_counts = received;
  exchanged.root = -1;
  backend.run_collective(exchanged);
  std::vector<const void*> inputs;
  for (int rank = 0; rank < call.size; ++rank) inputs.push_back(blocks.slice(rank * out.count, 0).data);
  reduce_all_into(out, inputs, call.reduction);
}

/// A reduce, all_reduce or reduce_scatter in which every element is reduce_all_into of all ranks' elements in rank order. The
/// backend's own collectives bring the blocks of all ranks' inputs to the rank that reduces them, and the results to where they
/// are wanted.
/// Cost: the bytes of the ring algorithms, and room for as many bytes as this rank gives
void reduce_in_rank_order(const Call& call, Backend& backend) {
  if (call.collective == Collective::reduce_scatter) return reduce_own_block(call, backend, call.counts, call.out);
  const auto counts = balanced_counts(call.in.count, call.size);
  const Blocks blocks(counts);
  const bool is_all = call.collective == Collective::all_reduce;
  const Slice own = blocks.at(Region::output, call.rank);
  std::vector<char> room(is_all ? 0 : static_cast<size_t>(own.count * size_of(call.in.type)));
  const Buffer block = is_all ? call.out.slice(own.begin, own.count) : Buffer{room.data(), own.count, call.in.type};
  reduce_own_block(call, backend, counts, block);
  backend.run_collective(part_of(call, is_all ? Collective::all_gather : Collective::gather, block, call.out, counts));
}

/// The counts of all ranks, one row per sender.
std::vector<int64_t> gather_counts(const Call& all_to_all, Backend& backend) {
  const auto size = static_cast<size_t>(all_to_all.size);
  std::vector<int64_t> all(size * size);
  const std::vector<int64_t> rows(size, all_to_all.size);
  Call call = part_of(all_to_all, Collective::all_gather, const_buffer(all_to_all.counts), buffer(all), rows);
  call.algorithm = all_to_all.algorithm;
  call.receive_counts = {};
  perform(call, backend);
  return all;
}

/// Throws where a rank sends another count than this one expects; this rank has no memory for it.
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

void run(const Program& program, Backend& backend, const Call& call) {
  const ElementType type = call.elements().type;
  int64_t most = 0;  // the most elements that a step receives before it reduces them
  for (const Step& step : program.steps) {
    int64_t arriving = 0;
    for (const Transfer& t : step.transfers) arriving += reduces(t) ? t.slice.count : 0;
    most = std::max(most, arriving);
  }
  const auto room =
      std::make_unique_for_overwrite<char[]>(static_cast<size_t>((program.scratch + most) * size_of(type)));
  void* const regions[] = {const_cast<void*>(call.in.data), call.out.data, room.get()};  // programs only read the input
  const auto at = [&](const Slice& slice) {
    void* region = regions[static_cast<int>(slice.region)];
    return Buffer{region, 0, type}.slice(slice.begin, slice.count);
  };
  const auto perform_moves = [&](std::span<const LocalMove> moves) {
    for (const LocalMove& move : moves) {
      const Buffer from = at(move.from), to = at(move.to);
      if (from.data != to.data && from.count > 0) std::memmove(to.data, from.data, static_cast<size_t>(from.bytes()));
    }
  };
  std::vector<Message> messages;
  perform_moves(program.before);
  for (const Step& step : program.steps) {
    messages.clear();
    int64_t arrived = program.scratch;
    for (const Transfer& t : step.transfers) {
      const Buffer buffer = at(reduces(t) ? Slice{Region::scratch, arrived, t.slice.count} : t.slice);
      if (reduces(t)) arrived += t.slice.count;
      const auto kind = t.kind == Transfer::Kind::send ? Message::Kind::send : Message::Kind::receive;
      messages.push_back({kind, t.peer, buffer, kCollectiveTag});
    }
    if (!messages.empty()) backend.exchange(messages, call);
    reduce_arrived(step, messages, call, at);
    perform_moves(step.moves);
  }
  const bool holds_result = call.collective != Collective::reduce || call.rank == call.root;
  if (has_reduction(*call.collective) && holds_result) finish_reduction(call.out, call.reduction, call.size);
}

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
}

}  // namespace adjoin::algorithm

void adjoin::Backend::run_collective(const Call& call) {
  algorithm::perform(call, *this);
}
