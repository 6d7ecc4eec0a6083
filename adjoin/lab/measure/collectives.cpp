#include "adjoin/lab/measure/collectives.hpp"

#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/lab/measure/workload.hpp"

namespace adjoin::measure {

namespace {

Result measure_size(const Communicator& world, Operation operation, int64_t bytes, const Effort& effort) {
  const Workload workload(world, bytes);
  const Call contenders[] = {[&] { workload.call(operation); }, [&] { workload.copy(); }};
  const auto times = time_blocks(world, contenders, effort);
  const double copy_us = median(times[1]);
  return {operation, world.size(), bytes, median(times[0]), limit_us(operation, world.size(), bytes, copy_us)};
}

}  // namespace

double limit_us(Operation operation, int ranks, int64_t bytes, double copy_us) {
  const double copied = 2.0 * ranks * static_cast<double>(bytes);
  return copied > 0 ? copy_us * static_cast<double>(least_traffic(operation, ranks, bytes)) / copied : 0;
}

std::vector<Result> measure_collective(const Communicator& world, Operation operation, std::span<const int64_t> sizes,
                                       const Effort& effort) {
  if (operation == Operation::barrier) return {measure_size(world, operation, 0, effort)};
  const int64_t least = world.size() * size_of(ElementType::float32);
  for (const int64_t bytes : sizes)
    require(bytes >= least, "expected sizes of at least " + std::to_string(least) + " bytes on " +
                                std::to_string(world.size()) + " ranks, got " + std::to_string(bytes));
  std::vector<Result> results;
  for (const int64_t bytes : sizes) results.push_back(measure_size(world, operation, bytes, effort));
  return results;
}

}  // namespace adjoin::measure
