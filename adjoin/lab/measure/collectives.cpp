#include "adjoin/lab/measure/collectives.hpp"

#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/lab/measure/sizes.hpp"
#include "adjoin/lab/measure/workload.hpp"

namespace adjoin::measure {

namespace {

Result measure_size(const Communicator& world, Collective collective, int64_t bytes, const Effort& effort) {
  const Workload workload(world, bytes);
  const Contender contenders[] = {{{[&] { workload.call(collective); }}}, {{[&] { workload.copy(); }}}};
  const auto times = time_in_turns(world, contenders, effort);
  const double copy_us = 1e6 * median(times[1].all);
  return {collective, world.size(), bytes, 1e6 * median(times[0].all),
          limit_us(collective, world.size(), bytes, copy_us)};
}

}  // namespace

std::vector<Collective> collectives_from(std::string_view list) {
  std::vector<Collective> collectives;
  for (const std::string_view wanted : list.empty() ? collective_names() : items_of(list)) {
    const auto collective = collective_named(wanted);
    require(collective.has_value(), [&] {
      return "expected operations among " + joined(collective_names()) + ", got '" + std::string(wanted) + "'";
    });
    collectives.push_back(*collective);
  }
  return collectives;
}

int64_t least_traffic(Collective collective, int ranks, int64_t bytes) {
  using Root = CollectiveKind::Root;
  const CollectiveKind& kind = kind_of(collective);
  const auto of_all = [&](Extent extent, bool root_alone) {
    return extent == Extent::none ? 0 : extent == Extent::own_block || root_alone ? bytes : ranks * bytes;
  };
  const int64_t of_root = kind.is_in_place && kind.root == Root::gives ? bytes : 0;  // has it already
  return of_all(kind.gives, kind.root == Root::gives) + of_all(kind.gets, kind.root == Root::gets) - of_root;
}

double limit_us(Collective collective, int ranks, int64_t bytes, double copy_us) {
  const double copied = 2.0 * ranks * static_cast<double>(bytes);
  return copied > 0 ? copy_us * static_cast<double>(least_traffic(collective, ranks, bytes)) / copied : 0;
}

std::vector<Result> measure_collective(const Communicator& world, Collective collective, std::span<const int64_t> sizes,
                                       const Effort& effort) {
  if (collective == Collective::barrier) return {measure_size(world, collective, 0, effort)};
  const int64_t least = world.size() * size_of(ElementType::float32);
  for (const int64_t bytes : sizes)
    require(bytes >= least, "expected sizes of at least " + std::to_string(least) + " bytes on " +
                                std::to_string(world.size()) + " ranks, got " + std::to_string(bytes));
  std::vector<Result> results;
  for (const int64_t bytes : sizes) results.push_back(measure_size(world, collective, bytes, effort));
  return results;
}

}  // namespace adjoin::measure
