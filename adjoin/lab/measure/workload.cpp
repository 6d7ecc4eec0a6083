#include "adjoin/lab/measure/workload.hpp"

#include <cstring>
#include <new>

namespace adjoin::measure {

namespace {

constexpr std::align_val_t kCacheLine{64};

}  // namespace

void Workload::Free::operator()(float* memory) const {
  ::operator delete[](memory, kCacheLine);
}

Workload::Memory Workload::zeros(int64_t count) {
  Memory memory(new (kCacheLine) float[static_cast<size_t>(count)]);
  std::memset(memory.get(), 0, static_cast<size_t>(count) * sizeof(float));
  return memory;
}

Workload::Workload(const Communicator& world, int64_t bytes)
    : world_(world),
      count_(bytes / size_of(ElementType::float32)),
      counts_(static_cast<size_t>(world.size()), count_ / world.size()),
      in_(zeros(count_)),
      out_(zeros(count_)) {}

void Workload::call(Collective collective) const {
  switch (collective) {
    case Collective::all_reduce:
      return world_.all_reduce(in());
    case Collective::broadcast:
      return world_.broadcast(in(), 0);
    case Collective::reduce:
      return world_.reduce(in(), out(), Reduction::sum, 0);
    case Collective::gather:
      return world_.gather(own_block_of(in()), blocks_of(out()), counts_, 0);
    case Collective::scatter:
      return world_.scatter(blocks_of(in()), own_block_of(out()), counts_, 0);
    case Collective::all_gather:
      return world_.all_gather(own_block_of(in()), blocks_of(out()), counts_);
    case Collective::reduce_scatter:
      return world_.reduce_scatter(blocks_of(in()), own_block_of(out()), counts_);
    case Collective::all_to_all:
      return world_.all_to_all(blocks_of(in()), counts_, blocks_of(out()), counts_);
    case Collective::barrier:
      return world_.barrier();
  }
}

void Workload::copy() const {
  std::memcpy(out_.get(), in_.get(), static_cast<size_t>(in().bytes()));
}

}  // namespace adjoin::measure
