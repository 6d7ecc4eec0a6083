// The interpreter of programs: the one place where they meet a backend.

#include <algorithm>
#include <cstring>
#include <memory>

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

namespace {

bool reduces(const Transfer& transfer) {
  return transfer.kind == Transfer::Kind::receive_and_reduce;
}

/// The elements that a step receives before they are reduced.
int64_t arriving_elements(const Step& step) {
  int64_t elements = 0;
  for (const Transfer& t : step.transfers)
    if (reduces(t)) elements += t.slice.count;
  return elements;
}

/// One rank while it runs a program: its regions, and room that one step leaves to the next.
class Run {
 public:
  Run(const Program& program, Backend& backend, const Call& call)
      : backend_(backend), call_(call), type_(call.elements().type), reduction_(pairwise_of(call.reduction)) {
    int64_t most = 0;
    for (const Step& step : program.steps) most = std::max(most, arriving_elements(step));
    room_ = std::make_unique_for_overwrite<char[]>(static_cast<size_t>((program.scratch + most) * size_of(type_)));
    regions_[static_cast<int>(Region::input)] = const_cast<void*>(call.in.data);  // programs only read the input
    regions_[static_cast<int>(Region::output)] = call.out.data;
    regions_[static_cast<int>(Region::scratch)] = room_.get();
    arriving_ = room_.get() + program.scratch * size_of(type_);
  }

  void step(const Step& step) {
    if (!step.transfers.empty()) {
      post(step);
      backend_.exchange(messages_, call_);
      reduce_arrived(step);
    }
    move(step.moves);
  }

  void move(std::span<const LocalMove> moves) {
    for (const LocalMove& move : moves) {
      const Buffer from = at(move.from), to = at(move.to);
      if (from.data != to.data && from.count > 0) std::memmove(to.data, from.data, static_cast<size_t>(from.bytes()));
    }
  }

 private:
  Buffer at(const Slice& slice) const {
    char* base = static_cast<char*>(regions_[static_cast<int>(slice.region)]);
    return {base + slice.begin * size_of(type_), slice.count, type_};
  }

  void post(const Step& step) {
    messages_.clear();
    char* arriving = arriving_;
    for (const Transfer& t : step.transfers) {
      Buffer buffer = at(t.slice);
      if (reduces(t)) {
        buffer.data = arriving;
        arriving += buffer.bytes();
      }
      const auto kind = t.kind == Transfer::Kind::send ? Message::Kind::send : Message::Kind::receive;
      messages_.push_back({kind, t.peer, buffer, kCollectiveTag});
    }
  }

  void reduce_arrived(const Step& step) {
    for (size_t i = 0; i < step.transfers.size(); ++i) {
      const Transfer& first = step.transfers[i];
      const auto is_same = [&](const Transfer& t) { return reduces(t) && t.slice == first.slice; };
      if (!reduces(first) ||
          std::any_of(step.transfers.begin(), step.transfers.begin() + static_cast<ptrdiff_t>(i), is_same))
        continue;
      const Buffer own = at(first.slice);
      operands_.assign(1, {call_.rank, own.data});
      for (size_t j = i; j < step.transfers.size(); ++j)
        if (is_same(step.transfers[j])) operands_.emplace_back(step.transfers[j].peer, messages_[j].buffer.data);
      std::sort(operands_.begin(), operands_.end());
      in_order_.clear();
      for (const auto& [rank, data] : operands_) in_order_.push_back(data);
      reduce_all_into(own, in_order_, reduction_);
    }
  }

  Backend& backend_;
  const Call& call_;
  ElementType type_;
  Reduction reduction_;
  std::unique_ptr<char[]> room_;
  void* regions_[3];
  char* arriving_;
  std::vector<Message> messages_;
  std::vector<std::pair<int, const void*>> operands_;  // by rank
  std::vector<const void*> in_order_;
};

}  // namespace

void run(const Program& program, Backend& backend, const Call& call) {
  Run rank(program, backend, call);
  rank.move(program.before);
  for (const Step& step : program.steps) rank.step(step);
}

}  // namespace adjoin::algorithm
