#include "adjoin/lab/measure/workload.hpp"

#include <cstring>

#include "adjoin/comm/contract/host_memory.hpp"

namespace adjoin::measure {

namespace {

std::shared_ptr<void> zeros(int64_t bytes) {
  std::shared_ptr<void> memory = host_memory(static_cast<size_t>(bytes));
  std::memset(memory.get(), 0, static_cast<size_t>(bytes));
  return memory;
}

}  // namespace

Workload::Workload(const Communicator& world, int64_t bytes)
    : world_(world),
      count_(bytes / size_of(ElementType::float32)),
      counts_(static_cast<size_t>(world.size()), count_ / world.size()),
      in_(zeros(bytes)),
      out_(zeros(bytes)) {}

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

void Workload::write() const {
  std::memset(in_.get(), 0, static_cast<size_t>(in().bytes()));
}

void Workload::copy() const {
  std::memcpy(out_.get(), in_.get(), static_cast<size_t>(in().bytes()));
}

}  // namespace adjoin::measure
