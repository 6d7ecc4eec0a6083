#include "adjoin/lab/trace/trace.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/comm/async_communicator.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/lab/trace/events.hpp"
#include "adjoin/lab/trace/one_clock.hpp"
#include "adjoin/lab/trace/traced_rank.hpp"
#include "tests/support/operations.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/traces.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::lab {
namespace {

using nlohmann::json;
using test::events_of;
using test::times_of;
using testing::for_each_world;

json events_of_records(const std::vector<TracedRank>& ranks) {
  std::string text;
  write_trace_events(ranks, {}, [&](std::string_view piece) { text += piece; });
  return json::parse(text);
}

/// The one event that a rank has of this name.
json only_event(const json& trace, const std::string& name, int rank) {
  std::optional<json> found;
  for (const json& event : events_of(trace, "X", name)) {
    if (event.at("pid") != rank) continue;
    EXPECT_FALSE(found) << event;
    found = event;
  }
  EXPECT_TRUE(found) << name;
  return found.value_or(json());
}

/// Calls each operation, on the world, on two groups, beside the rank, and with messages that cross.
void communicate(const Communicator& world) {
  const TimeSlice whole("step", 7);
  const Communicator half = *world.split(world.rank() % 2, 0);
  std::vector<float> x(48, 1);
  for (const testing::OperationCall& call : testing::every_operation()) {
    call(world, x);
    const TimeSlice slice("half");
    call(half, x);
  }
  {
    const AsyncCommunicator stream = world.stream(), other = half.stream();
    std::vector<float> y(1 << 16, 1), z(1 << 16, 1);
    const Handle first = stream.all_reduce(buffer(y)), second = other.all_reduce(buffer(z));
    const TimeSlice slice("beside");
    second.wait();
    first.wait();
  }
  const int next = (world.rank() + 1) % world.size(), before = (world.rank() + world.size() - 1) % world.size();
  std::vector<float> in(4);
  const auto sending = world.isend(const_buffer(x), next, 3);
  std::vector<float> y(48);
  world.recv(buffer(y), before, 3);
  sending->wait();
}

TEST(Trace, shows_what_all_ranks_do_in_one_file) {
  const test::TemporaryFolder folder;
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    Trace trace(world, "rank \"" + std::to_string(world.rank()) + "\": dp 1\\2");
    communicate(trace.world());
    trace.write(folder / "trace.json.gz");
    if (world.rank() != 0) return;
    const json file = test::read_trace(folder / "trace.json.gz");
    test::expect_sound_trace(file, world.size());
    EXPECT_EQ(file.at("otherData").at("ranks"), world.size());
    EXPECT_EQ(events_of(file, "M", "process_name")[0].at("args").at("name"), "rank \"0\": dp 1\\2");
    EXPECT_EQ(std::ssize(events_of(file, "s")), 3 * world.size()) << "a sendrecv on each group, and an isend";
    const json step = only_event(file, "step 7", world.size() - 1);
    const json scatter = events_of(file, "X", "scatter")[0];
    EXPECT_EQ(scatter.at("args").at("place").get<std::string>().substr(0, 14), "operations.hpp");
    EXPECT_GT(scatter.at("args").at("number"), 0);
    EXPECT_EQ(std::ssize(events_of(file, "X", "half")), world.size() * std::ssize(testing::every_operation()));
  });
}

TEST(Trace, begins_anew_after_it_was_written) {
  const test::TemporaryFolder folder;
  for_each_world({2}, [&](const Communicator& world) {
    Trace trace(world);
    trace.world().barrier();
    trace.write(folder / "first");
    std::vector<double> x(3);
    trace.world().with_algorithm(Collective::broadcast, "tree").broadcast(buffer(x), 1);
    trace.write(folder / "second");
    if (world.rank() != 0) return;
    EXPECT_EQ(events_of(test::read_trace(folder / "first"), "X", "barrier").size(), static_cast<size_t>(world.size()));
    const json second = test::read_trace(folder / "second");
    EXPECT_TRUE(events_of(second, "X", "barrier").empty());
    const json arguments = only_event(second, "broadcast", 0).at("args");
    EXPECT_EQ(arguments.at("algorithm"), "tree");
    EXPECT_EQ(arguments.at("bytes"), 24);
    EXPECT_EQ(arguments.at("group"), ranks_text(world.world_ranks()));
    EXPECT_EQ(events_of(second, "M", "process_name")[1].at("args").at("name"), "rank 1");
  });
}

TEST(Trace, says_which_file_cannot_be_written) {
  launch_threads(1, [](const Communicator& world) {
    for (const char* path : {"/dev/full", "/proc/nowhere/trace.json.gz"}) {
      Trace trace(world);
      trace.world().barrier();
      const std::string message = test::message_of<IoError>([&] { trace.write(path); });
      EXPECT_EQ(message.substr(0, std::string(path).size()), path);
    }
  });
}

TEST(TraceEvents, part_a_call_where_the_last_rank_that_it_needs_has_begun) {
  using Kind = CallRecord::Kind;
  const auto collective = [](uint64_t meeting, int64_t begin, int64_t end) {
    return TimedCall{{.kind = Kind::collective,
                      .name = "barrier",
                      .number = meeting,
                      .meeting = meeting,
                      .begin = begin,
                      .end = end}};
  };
  const auto message = [](std::string_view name, uint64_t number, bool is_send, int peer, int64_t begin, int64_t end) {
    return TimedCall{{.kind = name == "wait" ? Kind::wait : Kind::messages,
                      .name = name,
                      .number = number,
                      .begin = begin,
                      .end = end},
                     {{.peer = peer, .tag = 1, .is_send = is_send, .bytes = 8}}};
  };
  std::vector<TracedRank> ranks(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    ranks[rank].rank = static_cast<int>(rank);
    ranks[rank].name = "rank";
    ranks[rank].groups = {{0, {0, 1}}};
  }
  ranks[0].calls = {collective(1, 1000, 9000)};
  ranks[1].calls = {collective(1, 6000, 9500)};
  ranks[0].calls.push_back(message("isend", 2, true, 1, 10000, 10100));
  ranks[0].calls.push_back(message("send", 3, true, 1, 11000, 22000));
  ranks[0].calls.push_back(message("wait", 2, true, 1, 23000, 24000));
  ranks[1].calls.push_back(message("recv", 2, false, 0, 9800, 20000));
  ranks[1].calls.push_back(message("recv", 3, false, 0, 21000, 21900));
  const json trace = events_of_records(ranks);
  test::expect_sound_trace(trace, 2);

  std::vector<std::vector<int64_t>> waiting(2), moving(2);
  for (const json& event : events_of(trace, "X")) {
    if (event.at("name") != "waiting" && event.at("name") != "moving") continue;
    const auto [begin, end] = times_of(event);
    (event.at("name") == "waiting" ? waiting : moving)[event.at("pid").get<size_t>()].push_back(end - begin);
  }
  EXPECT_EQ(waiting[0], (std::vector<int64_t>{5000, 10000}));  // for rank 1 in the barrier, and in the second recv
  EXPECT_EQ(moving[0], (std::vector<int64_t>{3000, 100, 1000, 1000}));  // isend waits for nobody
  EXPECT_EQ(waiting[1], (std::vector<int64_t>{200}));                   // for the isend
  EXPECT_EQ(moving[1], (std::vector<int64_t>{3500, 10000, 900}));
  EXPECT_EQ(events_of(trace, "s").size(), 2u);
}

TEST(TraceEvents, give_calls_that_overlap_beside_a_rank_threads_of_their_own) {
  std::vector<TracedRank> ranks(1);
  ranks[0].name = "rank 0";
  ranks[0].groups = {{0, {0}}};
  ranks[0].slices = {{.name = "inner \xff\n", .begin = 0, .end = 50}, {.name = "outer", .begin = 0, .end = 50}};
  for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{{0, 20}, {10, 30}, {20, 40}, {31, 33}})
    ranks[0].calls.push_back({{.kind = CallRecord::Kind::collective,
                               .name = "all_reduce",
                               .number = ranks[0].calls.size() + 1,
                               .meeting = ranks[0].calls.size() + 1,
                               .is_beside = true,
                               .begin = begin,
                               .end = end}});
  const json trace = events_of_records(ranks);
  test::expect_sound_trace(trace, 1);
  std::vector<int> threads;
  for (const json& event : events_of(trace, "X", "all_reduce")) threads.push_back(event.at("tid").get<int>());
  EXPECT_EQ(threads, (std::vector<int>{2, 2, 3, 3}));
  EXPECT_EQ(events_of(trace, "X")[0].at("name"), "outer");
}

TEST(TracedRank, is_the_same_after_it_was_packed) {
  TracedRank record;
  record.rank = 3, record.name = "rank \"1\"", record.host = "a", record.clock = {{1, -2, 3}, {4, 5, 6}};
  record.calls = {{{.kind = CallRecord::Kind::messages,
                    .name = "exchange",
                    .algorithm = "ring",
                    .group = ~uint64_t{0},
                    .number = 3,
                    .count = 1 << 20,
                    .line = 12,
                    .is_beside = true,
                    .file = "a \"b\".cpp",
                    .begin = -5,
                    .end = int64_t{1} << 60},
                   {{.peer = 1, .tag = 2, .is_send = true, .bytes = 5}, {.peer = 0, .tag = -1}}}};
  record.slices = {{.name = "data", .number = 2, .stage = 1, .begin = 3, .end = 4}};
  record.groups = {{~uint64_t{0}, {4, 2}}};
  const std::string bytes = packed(record);
  TracedRank again = unpacked(bytes);
  EXPECT_EQ(packed(again), bytes);
  EXPECT_EQ(again.clock[1].error, 6);
  EXPECT_EQ(again.calls[0].where(), "a \"b\".cpp:12");
  EXPECT_EQ(again.slices[0].name, "data");
  EXPECT_EQ(again.calls[0].messages[1].tag, -1);
  EXPECT_EQ(again.groups, record.groups);
  EXPECT_THROW(unpacked(std::string_view(bytes).substr(0, 40)), InternalError);
}

/// A message from rank `from` to the other one of two, which takes its receiver from `begin` to `end`.
void add_message(std::vector<TracedRank>& ranks, size_t from, uint64_t number, int64_t begin, int64_t end) {
  for (const size_t rank : {size_t{0}, size_t{1}}) {
    const bool sends = rank == from;
    ranks[rank].calls.push_back({{.kind = CallRecord::Kind::messages,
                                  .name = sends ? "send" : "recv",
                                  .number = number,
                                  .begin = sends ? begin : end - 1,
                                  .end = end + (sends ? 5 : 0)},
                                 {{.peer = rank == 0 ? 1 : 0, .is_send = sends, .bytes = 4}}});
  }
}

TEST(OneClock, keeps_a_message_from_ending_before_it_begins_and_ranks_of_a_host_on_one_clock) {
  std::vector<TracedRank> ranks(3);
  for (size_t rank = 0; rank < 3; ++rank) {
    ranks[rank].rank = static_cast<int>(rank);
    ranks[rank].host = rank == 0 ? "a" : "b";
    ranks[rank].clock = {{0, 1000, rank == 2 ? 20 : 50}, {10'000, 1000, rank == 2 ? 60 : 30}};
  }
  ranks[1].clock[0].offset = 950;
  ranks[2].clock[1].offset = 900;
  add_message(ranks, 0, 1, 2100, 2080 - 1000);  // by the clocks it is there 20 too early
  add_message(ranks, 1, 2, 4000 - 1000, 4500);
  ranks[2].slices = {{.name = "data", .begin = 3000, .end = 3100}};
  const std::vector<TracedHost> hosts = put_on_one_clock(ranks);
  EXPECT_EQ(ranks[0].calls[0].begin, 2100);
  EXPECT_EQ(ranks[1].calls[0].end, 2100);
  EXPECT_EQ(ranks[1].calls[1].begin, 4020);
  EXPECT_EQ(ranks[2].slices[0].begin, 4020);
  ASSERT_EQ(hosts.size(), 2u);
  EXPECT_EQ(hosts[0].clock_error, 0);
  EXPECT_EQ(hosts[1].clock_error, 30);  // the worse of the best readings before and after
  EXPECT_EQ(hosts[1].ranks, (std::vector<int>{1, 2}));
}

}  // namespace
}  // namespace adjoin::lab
