#include "adjoin/comm/algorithm/program.hpp"

#include <cstring>
#include <numeric>

namespace adjoin::algorithm {

namespace {

/// The three regions of one rank while a program runs.
class Memory {
 public:
  Memory(const Program& program, ConstBuffer input, Buffer output)
      : type_(output.type), bytes_(static_cast<size_t>(program.scratch * size_of(output.type))) {
    regions_[static_cast<int>(Region::input)] = const_cast<void*>(input.data);  // programs only read the input
    regions_[static_cast<int>(Region::output)] = output.data;
    regions_[static_cast<int>(Region::scratch)] = bytes_.data();
  }

  Buffer at(const Slice& slice) const {
    char* base = static_cast<char*>(regions_[static_cast<int>(slice.region)]);
    return {base + slice.begin * size_of(type_), slice.count, type_};
  }

 private:
  ElementType type_;
  std::vector<char> bytes_;
  void* regions_[3];
};

void copy(Buffer to, Buffer from) {
  if (from.data != to.data && from.count > 0) std::memmove(to.data, from.data, static_cast<size_t>(from.bytes()));
}

/// Room for what a step receives before it is reduced.
int64_t arriving_bytes(const Step& step, ElementType type) {
  int64_t elements = 0;
  for (const Transfer& t : step.transfers)
    if (t.kind == Transfer::Kind::receive_and_reduce) elements += t.slice.count;
  return elements * size_of(type);
}

void run_transfers(const Step& step, Backend& backend, const Memory& memory, ElementType type, Reduction reduction) {
  std::vector<char> arriving(static_cast<size_t>(arriving_bytes(step, type)));
  std::vector<Message> messages;
  int64_t used = 0;
  for (const Transfer& t : step.transfers) {
    Buffer buffer = memory.at(t.slice);
    if (t.kind == Transfer::Kind::receive_and_reduce) {
      buffer.data = arriving.data() + used;
      used += buffer.bytes();
    }
    const auto kind = t.kind == Transfer::Kind::send ? Message::Kind::send : Message::Kind::receive;
    messages.push_back({kind, t.peer, buffer, kCollectiveTag});
  }
  backend.exchange(messages);
  for (size_t i = 0; i < messages.size(); ++i)
    if (step.transfers[i].kind == Transfer::Kind::receive_and_reduce)
      reduce_into(memory.at(step.transfers[i].slice), messages[i].buffer, reduction);
}

}  // namespace

int64_t total_of(std::span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

Slice ring_block(Region region, std::span<const int64_t> starts, std::span<const int64_t> counts, int i) {
  const int size = static_cast<int>(counts.size());
  const auto b = static_cast<size_t>((i % size + size) % size);
  return {region, starts[b], counts[b]};
}

std::vector<int64_t> starts_of(std::span<const int64_t> counts) {
  std::vector<int64_t> starts;
  int64_t next = 0;
  for (const int64_t count : counts) {
    starts.push_back(next);
    next += count;
  }
  return starts;
}

std::vector<int64_t> balanced_counts(int64_t count, int parts) {
  std::vector<int64_t> counts;
  for (int i = 0; i < parts; ++i) counts.push_back(count / parts + (i < count % parts));
  return counts;
}

void run(const Program& program, Backend& backend, ConstBuffer input, Buffer output, Reduction reduction) {
  const Memory memory(program, input, output);
  for (const Step& step : program.steps) {
    if (!step.transfers.empty()) run_transfers(step, backend, memory, output.type, reduction);
    for (const LocalMove& move : step.moves) {
      if (move.kind == LocalMove::Kind::copy)
        copy(memory.at(move.to), memory.at(move.from));
      else
        reduce_into(memory.at(move.to), memory.at(move.from), reduction);
    }
  }
}

}  // namespace adjoin::algorithm
