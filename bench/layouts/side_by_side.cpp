#include "bench/layouts/side_by_side.hpp"

#include <ATen/Parallel.h>

#include <limits>

#include "adjoin/base/error.hpp"
#include "adjoin/lab/measure/timing.hpp"
#include "adjoin/movement/peak_memory.hpp"

namespace adjoin::bench {
namespace {

using measure::Contender;
using measure::Times;

/// It has a backward part if the distributed work has one, also on ranks that have nothing to do.
Contender contender_of(const Entrant& entrant, const Pass& pass, bool has_backward, const Communicator& world) {
  Contender contender{.parts = {pass.forward}};
  if (has_backward) contender.parts.push_back(pass.backward);
  if (!entrant.is_one_worker) return contender;
  const int threads = at::get_num_threads(), of_all = world.rank() == 0 ? threads * world.size() : threads;
  contender.begin = [of_all] { at::set_num_threads(of_all); };
  contender.end = [threads] { at::set_num_threads(threads); };
  return contender;
}

Comparison compare(const std::vector<Entrant>& entrants, int64_t times, const Communicator& world) {
  Comparison comparison;
  PeakMemory memory;
  const Pass distributed = entrants.front().make(world);
  const bool has_backward = distributed.backward != nullptr;
  distributed.forward();
  if (has_backward) distributed.backward();
  comparison.peak_memory_bytes = memory.peak_bytes_of_all(world);
  if (times == 0) return comparison;

  std::vector<Contender> contenders{contender_of(entrants.front(), distributed, has_backward, world)};
  for (size_t i = 1; i < entrants.size(); ++i) {
    const bool is_here = !entrants[i].is_one_worker || world.rank() == 0;
    contenders.push_back(contender_of(entrants[i], is_here ? entrants[i].make(world) : Pass(), has_backward, world));
  }
  const std::vector<Times> all = measure::time_in_turns(world, contenders,
                                                        {.turns = static_cast<int>(times),
                                                         .seconds = std::numeric_limits<double>::infinity(),
                                                         .turn_seconds = 0.03,
                                                         .most_calls = 200,
                                                         .lets_threads_sleep = true});
  for (size_t i = 0; i < all.size(); ++i)
    comparison.results.push_back({.name = entrants[i].name,
                                  .forward = measure::median(all[i].parts[0]),
                                  .backward = has_backward ? measure::median(all[i].parts[1]) : 0,
                                  .both = measure::median(all[i].all),
                                  .forward_ratio = measure::median_ratio(all[0].parts[0], all[i].parts[0]),
                                  .ratio = measure::median_ratio(all[0].all, all[i].all)});
  return comparison;
}

}  // namespace

std::vector<Comparison> side_by_side(const SideBySideOptions& options, const std::vector<std::vector<Entrant>>& all) {
  require(options.times >= 0, "expected a number of measurements, or 0 for the memory alone");
  std::vector<Comparison> comparisons;
  train::run_workers(options.workers, [&](const Communicator& world) {
    for (const std::vector<Entrant>& entrants : all) {
      const Comparison comparison = compare(entrants, options.times, world);
      if (train::is_first_of_process(world)) comparisons.push_back(comparison);
    }
  });
  return comparisons;
}

}  // namespace adjoin::bench
