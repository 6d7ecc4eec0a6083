#include "adjoin/lab/flight_record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/async_communicator.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/lab/flight_comparison.hpp"
#include "adjoin/lab/flight_file.hpp"
#include "adjoin/lab/flight_reading.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::lab {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// A folder of a run with flight records, and what is read of it.
class RecordedRun {
 public:
  RecordedRun() { std::filesystem::create_directory(folder_ / kFlightFolder); }

  std::filesystem::path file(int rank) const { return folder_ / kFlightFolder / flight_file_name(rank); }
  JobRecord read() const { return read_flight_records(folder_.path()); }

  std::shared_ptr<FlightRecord> record(int rank, int ranks) const {
    auto record = std::make_shared<FlightRecord>(rank, ranks);
    record->keep_in(file(rank));
    return record;
  }
  /// Runs `fn` on so many recorded threads; what it throws is noted as a training run does.
  std::string launch(int ranks, const std::function<void(const Communicator& world)>& fn) const {
    std::vector<std::shared_ptr<FlightRecord>> records;
    for (int rank = 0; rank < ranks; ++rank) records.push_back(record(rank, ranks));
    try {
      launch_threads(
          ranks, [&](const Communicator& world) { fn(world.observed_by(records[static_cast<size_t>(world.rank())])); });
    } catch (const Error& error) {
      for (const auto& record : records) record->note_failure(error.what());
      return error.what();
    }
    for (const auto& record : records) record->note_end();
    return "";
  }
  /// Changes a number in the file of rank 0.
  template <class Number>
  void damage(size_t offset, Number value) const {
    std::fstream stream(file(0), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(offset));
    stream.write(reinterpret_cast<const char*>(&value), sizeof value);
  }

 private:
  test::TemporaryFolder folder_;
};

std::vector<std::string> texts_of(const JobRecord& job) {
  std::vector<std::string> texts;
  for (const RecordDifference& difference : differences(job)) texts.push_back(describe(difference, job));
  return texts;
}

void call_barriers(FlightRecord& record, int calls) {
  const Communicator alone = Communicator().observed_by({&record, [](auto*) {}});
  for (int i = 0; i < calls; ++i) alone.barrier();
}

Call call_on(const GroupIdentity& group, uint64_t number) {
  Call call{.collective = Collective::all_reduce, .name = "all_reduce"};
  call.sequence = call.meeting = number;
  call.group = &group;
  return call;
}

TEST(FlightRecord, has_what_each_call_is) {
  const RecordedRun run;
  run.launch(3, [](const Communicator& world) {
    std::vector<float> x(6, 1), y(6);
    const std::vector<int> pair = {0, 2}, rest = {1};
    const Communicator group = world.subset(world.rank() == 1 ? rest : pair);
    if (world.rank() != 1) group.broadcast(buffer(x), 1);
    if (world.rank() == 0) world.send(const_buffer(x), 2, 7);
    if (world.rank() == 2) world.recv(buffer(y), 0, 7);
    world.with_algorithm(Collective::all_reduce, "ring").all_reduce(buffer(x), Reduction::max);
  });
  const JobRecord job = run.read();
  ASSERT_THAT(job.of_ranks, SizeIs(3));
  EXPECT_FALSE(job.goes_on());
  EXPECT_THAT(job.failure, IsEmpty());
  EXPECT_THAT(texts_of(job), IsEmpty());
  const RankRecord& last = job.of_ranks[2];
  EXPECT_EQ(last.state, RankRecord::State::ended);
  EXPECT_EQ(last.process, ::getpid());
  ASSERT_THAT(last.calls, SizeIs(3));
  const std::string here = " at flight_record_test.cpp:";
  EXPECT_THAT(describe(last.calls[0]), StartsWith("broadcast #1 (root 2, float32 x 6)" + here));
  EXPECT_THAT(describe(last.calls[1]), StartsWith("recv #2 (from rank 0, tag 7, float32 x 6)" + here));
  EXPECT_THAT(describe(last.calls[2]), StartsWith("all_reduce #3 (ring, max, float32 x 6)" + here));
  EXPECT_THAT(last.groups.at(last.calls[0].group), ElementsAre(0, 2));
  EXPECT_EQ(last.calls[2].group, 0u);
  EXPECT_EQ(last.calls[2].meeting, 1u);
  EXPECT_EQ(last.calls[2].bytes(), 24);
  for (const CallRecord& call : last.calls) {
    EXPECT_FALSE(call.is_open());
    EXPECT_LE(last.begun, call.begin);
    EXPECT_LE(call.begin, call.end);
    EXPECT_LE(call.end, job.last_event);
  }
}

TEST(FlightRecord, keeps_the_last_calls_in_a_ring_and_counts_the_others) {
  const RecordedRun run;
  call_barriers(*run.record(0, 1), 450);
  const RankRecord record = run.read().of_ranks.at(0);
  EXPECT_EQ(record.calls_made, 450u);
  ASSERT_THAT(record.calls, SizeIs(200));
  for (size_t i = 0; i < 200; ++i) EXPECT_EQ(record.calls[i].meeting, 251 + i);
  EXPECT_EQ(record.meetings.at(0), 450u);
}

TEST(FlightRecord, takes_the_calls_from_before_its_file_along) {
  const RecordedRun run;
  FlightRecord record(0, 1);
  call_barriers(record, 3);
  EXPECT_FALSE(record.is_kept());
  record.keep_in(run.file(0));
  EXPECT_TRUE(record.is_kept());
  call_barriers(record, 1);
  EXPECT_THAT(run.read().of_ranks.at(0).calls, SizeIs(4));
}

TEST(FlightRecord, has_the_calls_of_a_stream_beside_those_of_the_rank) {
  const RecordedRun run;
  run.launch(2, [](const Communicator& world) {
    std::vector<float> x(1000, 1);
    const AsyncCommunicator stream = world.stream();
    for (int i = 0; i < 150; ++i) {
      const Handle handle = stream.all_reduce(buffer(x));
      world.barrier();
      handle.wait();
    }
  });
  const JobRecord job = run.read();
  EXPECT_THAT(job.damage, IsEmpty());
  EXPECT_THAT(texts_of(job), IsEmpty());
  for (const RankRecord& record : job.of_ranks) {
    EXPECT_EQ(record.calls_made, 300u);
    EXPECT_EQ(record.wait_begin, 0);
    for (const CallRecord& call : record.calls) EXPECT_FALSE(call.is_open());
  }
}

TEST(FlightRecord, has_the_members_of_as_many_groups_as_there_is_room_for) {
  const RecordedRun run;
  const auto record = run.record(0, 100);
  std::vector<GroupIdentity> groups;
  for (uint64_t i = 0; i < 250; ++i) groups.push_back({.id = 1 + 256 * i, .world_ranks = {0, 7, 14, 3, 99}});
  for (const GroupIdentity& group : groups) record->begin(call_on(group, 1)), record->end(call_on(group, 1));
  const RankRecord read = run.read().of_ranks.at(0);
  EXPECT_THAT(read.groups, SizeIs(1 + kRecordedGroups));
  EXPECT_THAT(read.groups.at(groups[3].id), ElementsAre(0, 7, 14, 3, 99));
  EXPECT_EQ(read.meetings.at(groups[3].id), 1u);
  EXPECT_THAT(read.calls, SizeIs(200));
}

TEST(FlightRecord, keeps_what_stood_there_when_the_process_is_killed) {
  const RecordedRun run;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto record = run.record(0, 2);
    call_barriers(*record, 5);
    const GroupIdentity world{.id = 0, .world_ranks = {0, 1}};
    record->begin(call_on(world, 6));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const JobRecord job = run.read();
  EXPECT_THAT(job.missing, ElementsAre(1));
  const RankRecord& record = job.of_ranks.at(0);
  EXPECT_EQ(record.state, RankRecord::State::gone);
  EXPECT_EQ(record.failure, "");
  ASSERT_THAT(record.calls, SizeIs(6));
  EXPECT_FALSE(record.calls[4].is_open());
  EXPECT_EQ(record.calls[5].end, 0);
  EXPECT_EQ(std::string(record.calls[5].name), "all_reduce");
}

TEST(FlightRecord, that_is_torn_or_damaged_tells_the_calls_that_are_whole) {
  const RecordedRun run;
  run.record(0, 1).reset();
  using flight_file::CallSlot;
  using flight_file::File;
  call_barriers(*run.record(0, 1), 10);
  const auto slot = [](size_t place) { return offsetof(File, slots) + place * sizeof(CallSlot); };
  run.damage(slot(3) + offsetof(CallSlot, place), uint64_t{0});          // being written
  run.damage(slot(4) + offsetof(CallSlot, place_again), uint64_t{204});  // was written while it was read
  run.damage(slot(5) + offsetof(CallSlot, call) + offsetof(CallRecord, type), uint8_t{200});
  run.damage(offsetof(File, process), int64_t{1} << 30);  // which lives nowhere
  const JobRecord job = run.read();
  EXPECT_THAT(job.damage, ElementsAre(HasSubstr("rank-0.bin: 3 calls cannot be read")));
  const RankRecord& record = job.of_ranks.at(0);
  EXPECT_EQ(record.damaged_calls, 3);
  EXPECT_THAT(record.calls, SizeIs(7));
}

TEST(FlightRecord, that_is_no_record_is_said_and_the_others_are_read) {
  const RecordedRun run;
  run.launch(3, [](const Communicator& world) { world.barrier(); });
  std::filesystem::resize_file(run.file(0), 1000);
  test::put(run.file(1), "notes");
  const JobRecord job = run.read();
  EXPECT_THAT(job.damage,
              ElementsAre(AllOf(HasSubstr("rank-0.bin: is truncated: it has 1,000 of "), HasSubstr(" bytes")),
                          HasSubstr("rank-1.bin: is not a flight record of this version")));
  EXPECT_THAT(job.missing, ElementsAre(0, 1));
  EXPECT_THAT(job.of_ranks, SizeIs(1));
  const test::TemporaryFolder empty;
  EXPECT_THAT(testing::thrown_by<InvalidArgument>([&] { read_flight_records(empty.path()); }),
              HasSubstr("there is no flight record in it"));
  EXPECT_THAT(testing::thrown_by<InvalidArgument>([&] { read_flight_records(empty / "none"); }),
              HasSubstr("there is no such folder"));
}

TEST(FlightRecord, stays_in_memory_where_the_disk_takes_no_file) {
  const RecordedRun run;
  FlightRecord record(0, 1);
  EXPECT_THAT(testing::thrown_by<IoError>([&] { record.keep_in(run.file(0) / "below"); }),
              HasSubstr("below: cannot be written: "));
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{.rlim_cur = 1000, .rlim_max = limit.rlim_max};
  const auto old_action = ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string error = testing::thrown_by<IoError>([&] { record.keep_in(run.file(0)); });
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, old_action);
  EXPECT_THAT(error, HasSubstr("rank-0.bin: cannot be written: "));
  EXPECT_FALSE(std::filesystem::exists(run.file(0)));
  call_barriers(record, 300);
}

TEST(FlightRecord, has_why_the_run_failed) {
  const RecordedRun run;
  const std::string told = run.launch(3, [](const Communicator& world) {
    if (world.rank() == 1) throw Error("the tank is empty");
    world.barrier();
  });
  const JobRecord job = run.read();
  EXPECT_EQ(job.failure, told);
  EXPECT_FALSE(job.goes_on());
  EXPECT_TRUE(job.of_ranks[0].calls.back().has_failed);
  EXPECT_THAT(texts_of(job), ElementsAre(AllOf(StartsWith("rank 1 never began barrier #1 at flight_record_test.cpp:"),
                                               HasSubstr(", for which ranks 0, 2 waited"))));
}

TEST(FlightComparison, finds_the_first_call_that_differs_on_a_group) {
  const RecordedRun run;
  const std::string told = run.launch(4, [](const Communicator& world) {
    std::vector<float> x(4, 1);
    const Communicator pair = *world.split(world.rank() % 2, 0);
    world.barrier();
    pair.all_reduce(buffer(x));
    if (world.rank() == 3) x.resize(3);
    if (world.rank() % 2 == 1) pair.all_reduce(buffer(x));
    world.barrier();
  });
  EXPECT_THAT(told, HasSubstr("all_reduce"));
  const std::vector<std::string> texts = texts_of(run.read());
  const std::string differ = "the ranks differ on group {1, 3}: rank 1 began all_reduce #2 (sum, float32 x 4)";
  EXPECT_THAT(texts, ::testing::Contains(
                         AllOf(StartsWith(differ), HasSubstr("; rank 3 began all_reduce #2 (sum, float32 x 3)"))));
  for (const std::string& text : texts)  // ranks 0 and 2 may have been ended before they began the last barrier
    EXPECT_THAT(text, ::testing::AnyOf(StartsWith(differ),
                                       AllOf(StartsWith("ranks 1, 3 never began barrier #4"), HasSubstr("waited"))));
}

TEST(FlightComparison, tells_other_operations_roots_and_places_and_nothing_of_equal_calls) {
  const auto parting_in = [](const std::function<void(const Communicator&, std::vector<float>&)>& of_rank_1,
                             const std::function<void(const Communicator&, std::vector<float>&)>& of_rank_0) {
    const RecordedRun run;
    run.launch(2, [&](const Communicator& world) {
      std::vector<float> x(4, 1);
      world.barrier();
      (world.rank() == 1 ? of_rank_1 : of_rank_0)(world, x);
    });
    return differences(run.read());
  };
  const auto broadcast = [](int root) {
    return [root](const Communicator& world, std::vector<float>& x) { world.broadcast(buffer(x), root); };
  };
  const auto sum = [](const Communicator& world, std::vector<float>& x) { world.all_reduce(buffer(x)); };
  const auto sum_there = [](const Communicator& world, std::vector<float>& x) { world.all_reduce(buffer(x)); };
  using Kind = RecordDifference::Kind;
  EXPECT_THAT(parting_in(sum, sum), IsEmpty());
  for (const auto& found : {parting_in(broadcast(0), sum), parting_in(broadcast(1), broadcast(0))}) {
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(found[0].kind, Kind::different);
    EXPECT_EQ(found[0].meeting, 2u);
  }
  const auto places = parting_in(sum, sum_there);
  ASSERT_THAT(places, SizeIs(1));
  EXPECT_EQ(places[0].kind, Kind::places);
}

TEST(FlightComparison, tells_of_a_message_that_its_peer_never_began) {
  const RecordedRun run;
  run.launch(3, [](const Communicator& world) {
    std::vector<float> x(4, 1);
    if (world.rank() == 0) world.send(const_buffer(x), 1, 3);
    if (world.rank() == 1) world.recv(buffer(x), 0, 3);
    if (world.rank() == 2) world.recv(buffer(x), 0, 5);
    world.barrier();
  });
  EXPECT_THAT(texts_of(run.read()),
              ::testing::Contains(AllOf(StartsWith("rank 2 waited in recv #1 (from rank 0, tag 5, float32 x 4) at "),
                                        HasSubstr(", but rank 0 never began the matching call"))));
}

TEST(FlightComparison, tells_of_an_isend_that_nobody_received) {
  const RecordedRun run;
  run.launch(2, [](const Communicator& world) {
    std::vector<float> x(1 << 20, 1);
    if (world.rank() == 0) world.isend(const_buffer(x), 1)->wait();
    world.barrier();
  });
  EXPECT_THAT(texts_of(run.read()), ::testing::Contains(AllOf(StartsWith("rank 0 waited in isend #1 (to rank 1"),
                                                              HasSubstr("but rank 1 never began the matching call"))));
}

}  // namespace
}  // namespace adjoin::lab
