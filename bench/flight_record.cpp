// What a flight record costs: nanoseconds of a call's begin and end, the minimum of many rounds, for each of several calls.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <vector>

#include "adjoin/base/ticks.hpp"
#include "adjoin/lab/flight_record.hpp"

namespace {

using namespace adjoin;

constexpr int kRounds = 500, kCalls = 1000;

void measure(const char* what, Call call) {
  const GroupIdentity group{.id = 12345, .world_ranks = {0, 1}};
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "adjoin-bench-flight-record.bin";
  lab::FlightRecord record(0, 2);
  record.keep_in(file);
  call.group = &group;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int round = 0; round < kRounds; ++round) {
    const int64_t begin = steady_nanoseconds();
    for (int i = 0; i < kCalls; ++i) {
      call.meeting = ++call.sequence;
      record.begin(call);
      record.end(call);
    }
    least = std::min(least, steady_nanoseconds() - begin);
  }
  std::printf("%-30s %5.1f ns\n", what, static_cast<double>(least) / kCalls);
  std::filesystem::remove(file);
}

}  // namespace

int main() {
  std::vector<float> x(64);
  const std::vector<int64_t> counts{32, 32};
  const Message send[] = {send_of(const_buffer(x), 1, 0)};
  const Where here = Where::current();
  measure("all_reduce", {.collective = Collective::all_reduce, .name = "all_reduce", .in = buffer(x), .where = here});
  measure(
      "all_gather of two counts",
      {.collective = Collective::all_gather, .name = "all_gather", .in = buffer(x), .counts = counts, .where = here});
  measure("send", {.name = "send", .messages = send, .where = here});
  measure("all_reduce by an algorithm", {.collective = Collective::all_reduce,
                                         .name = "all_reduce",
                                         .in = buffer(x),
                                         .where = here,
                                         .algorithm = "rabenseifner"});
}
