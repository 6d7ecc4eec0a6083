#include "adjoin/comm/algorithm/perform.hpp"

#include <algorithm>
#include <cstring>
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

/// The most elements that a step of the program receives before it reduces them.
int64_t most_arriving(const Program& program) {
  int64_t most = 0;
  for (const Step& step : program.steps) {
    int64_t arriving = 0;
    for (const Transfer& t : step.transfers) arriving += reduces(t) ? t.slice.count : 0;
    most = std::max(most, arriving);
  }
  return most;
}

}  // namespace

Run::Run(Program program, const Call& call)
    : program_(std::move(program)),
      call_(call),
      room_(std::make_unique_for_overwrite<char[]>(
          static_cast<size_t>((program_.scratch + most_arriving(program_)) * size_of(call.elements().type)))) {}

Buffer Run::at(const Slice& slice) const {
  void* const regions[] = {const_cast<void*>(call_.in.data), call_.out.data, room_.get()};  // the input is only read
  void* region = regions[static_cast<int>(slice.region)];
  return Buffer{region, 0, call_.elements().type}.slice(slice.begin, slice.count);
}

void Run::perform(std::span<const LocalMove> moves) const {
  for (const LocalMove& move : moves) {
    const Buffer from = at(move.from), to = at(move.to);
    if (from.data != to.data && from.count > 0) std::memmove(to.data, from.data, static_cast<size_t>(from.bytes()));
  }
}

bool Run::go_on() {
  if (next_ == 0) perform(program_.before);
  if (next_ > 0) end_step(program_.steps[next_ - 1]);
  for (; next_ < program_.steps.size(); end_step(program_.steps[next_ - 1])) {
    begin_step(program_.steps[next_++]);
    if (!messages_.empty()) return true;
  }
  const bool holds_result = call_.collective != Collective::reduce || call_.rank == call_.root;
  if (has_reduction(*call_.collective) && holds_result) finish_reduction(call_.out, call_.reduction, call_.size);
  return false;
}

void Run::begin_step(const Step& step) {
  messages_.clear();
  int64_t arrived = program_.scratch;
  for (const Transfer& t : step.transfers) {
    const Buffer buffer = at(reduces(t) ? Slice{Region::scratch, arrived, t.slice.count} : t.slice);
    if (reduces(t)) arrived += t.slice.count;
    const auto kind = t.kind == Transfer::Kind::send ? Message::Kind::send : Message::Kind::receive;
    messages_.push_back({kind, t.peer, buffer, kCollectiveTag});
  }
}

void Run::end_step(const Step& step) const {
  reduce_arrived(step);
  perform(step.moves);
}

/// Reduces what a step has received: for each slice, the received elements and those in place, in the order of ranks.
void Run::reduce_arrived(const Step& step) const {
  std::vector<std::pair<int, const void*>> operands;  // by rank
  std::vector<const void*> in_order;
  for (size_t i = 0; i < step.transfers.size(); ++i) {
    const Transfer& first = step.transfers[i];
    const auto is_same = [&](const Transfer& t) { return reduces(t) && t.slice == first.slice; };
    if (!reduces(first) || std::any_of(&step.transfers[0], &first, is_same)) continue;
    const Buffer own = at(first.slice);
    operands.assign(1, {call_.rank, own.data});
    for (size_t j = i; j < step.transfers.size(); ++j)
      if (is_same(step.transfers[j])) operands.emplace_back(step.transfers[j].peer, messages_[j].buffer.data);
    std::sort(operands.begin(), operands.end());
    in_order.clear();
    for (const auto& [rank, data] : operands) in_order.push_back(data);
    reduce_all_into(own, in_order, pairwise_of(call_.reduction));
  }
}

void run(Program program, Backend& backend, const Call& call) {
  for (Run run(std::move(program), call); run.go_on();) backend.exchange(run.messages(), call);
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

std::unique_ptr<Run> begin(const Call& call, Backend& backend) {
  const bool gathers_counts = call.collective == Collective::all_to_all && call.algorithm == "bruck";
  if (call.algorithm == kRankOrder || gathers_counts) return nullptr;
  Call chosen = call;
  if (call.algorithm.empty()) choose_for(chosen);
  return std::make_unique<Run>(program_for(chosen, backend), chosen);
}

}  // namespace adjoin::algorithm

void adjoin::Backend::run_collective(const Call& call) {
  algorithm::perform(call, *this);
}
