#include "adjoin/lab/measure/workload.hpp"

#include <cstring>
#include <utility>

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
  const CollectiveKind& kind = kind_of(collective);
  const auto part_of = [&](Extent extent, Buffer whole) {
    return extent == Extent::own_block ? own_block_of(whole) : extent == Extent::all_blocks ? blocks_of(whole) : whole;
  };
  Call call{.collective = collective, .where = Where::current()};
  if (kind.gives != Extent::none) {
    call.in = part_of(kind.gives, in());
    call.out = part_of(kind.gets, kind.is_in_place ? in() : out());
  }
  if (has_blocks(collective)) call.counts = counts_;
  if (kind.gives == kind.gets && has_blocks(collective)) call.receive_counts = counts_;
  if (has_root(collective)) call.root = 0;
  world_.carry_out(std::move(call));
}

void Workload::write() const {
  std::memset(in_.get(), 0, static_cast<size_t>(in().bytes()));
}

void Workload::copy() const {
  std::memcpy(out_.get(), in_.get(), static_cast<size_t>(in().bytes()));
}

}  // namespace adjoin::measure
