#include "adjoin/lab/trace/trace_file.hpp"

#include <fstream>
#include <iterator>
#include <utility>

#include "adjoin/lab/machine.hpp"
#include "adjoin/lab/trace/events.hpp"
#include "adjoin/lab/trace/gzip.hpp"
#include "adjoin/lab/trace/one_clock.hpp"

namespace adjoin::lab {
namespace {

/// The host's name and, as other hosts may have the same name, the id of its system's boot.
std::string this_host() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  file >> boot;
  return this_machine().host + " " + boot;
}

}  // namespace

RankRecorder::RankRecorder(const Communicator& world, std::string name) : world_(world) {
  mine_.rank = world.world_ranks()[static_cast<size_t>(world.rank())];
  mine_.name = std::move(name);
  mine_.host = this_host();
  mine_.clock = {read_clock(world)};
}

void RankRecorder::add(Timeline::Interval interval) {
  std::ranges::move(interval.calls, std::back_inserter(mine_.calls));
  std::ranges::move(interval.slices, std::back_inserter(mine_.slices));
  mine_.groups.merge(interval.groups);
}

std::vector<TracedRank> RankRecorder::gathered() {
  mine_.clock.push_back(read_clock(world_));
  std::vector<TracedRank> ranks = gathered_records(mine_, world_);
  static_cast<Timeline::Interval&>(mine_) = {};
  mine_.clock.erase(mine_.clock.begin());
  return ranks;
}

std::string trace_file(std::vector<TracedRank> ranks) {
  const std::vector<TracedHost> hosts = put_on_one_clock(ranks);
  GzipText file;
  write_trace_events(ranks, hosts, [&](std::string_view text) { file.add(text); });
  return file.finish();
}

}  // namespace adjoin::lab
