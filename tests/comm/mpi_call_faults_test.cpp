// Each call of MPI or of the system that may fail on one rank alone fails there, while the other ranks go on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "paths.hpp"
#include "tests/support/job.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin {
namespace {

using testing::Outcome;

Outcome tour(int kind, const std::string& fault) {
  const std::filesystem::path library = ADJOIN_MPI_FAULTS;  // whose path LD_PRELOAD would cut at spaces
  return testing::run_job(kind == 2 ? 3 : 2, "0 tour " + std::to_string(kind),
                          "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 ADJOIN_DEADLINE=30 "
                          "OMPI_MCA_btl_vader_single_copy_mechanism=none "
                          "'OMPI_MCA_mca_base_env_list=LD_LIBRARY_PATH=" +
                              library.parent_path().string() + ";LD_PRELOAD=" + library.filename().string() + "' '" +
                              fault + "'");
}

/// The lines of this library, not of mpirun.
std::vector<std::string> own_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("adjoin: ")) lines.push_back(line);
  return lines;
}

/// One call of one rank.
struct CallOfRank {
  int kind, rank, number;
  std::string name;
};

std::vector<CallOfRank> calls_of(int kind) {
  const test::TemporaryFolder folder;
  const std::filesystem::path log = folder / "log";
  const Outcome outcome = tour(kind, "ADJOIN_MPI_FAULT_LOG=" + log.string());
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  std::vector<CallOfRank> calls;
  std::map<int, int> calls_of_rank;
  std::ifstream in(log);
  int rank = 0;
  for (std::string name; in >> rank >> name;) calls.push_back({kind, rank, ++calls_of_rank[rank], name});
  return calls;
}

/// The job ends with one line, which names the rank, or goes on: without memory or a watchdog, of which one line warns.
void expect_one_line_or_none(const CallOfRank& call) {
  const std::string place = std::to_string(call.rank) + ":" + std::to_string(call.number);
  const Outcome outcome = tour(call.kind, "ADJOIN_MPI_FAULT=" + place);
  const std::vector<std::string> lines = own_lines(outcome.text);
  const std::string what = call.name + " as call " + place + " of tour " + std::to_string(call.kind) + ", exit code " +
                           std::to_string(outcome.code) + "\n" + outcome.text;
  if (outcome.code == 0) {
    EXPECT_LE(lines.size(), 1u) << what;
    EXPECT_THAT(lines, ::testing::Each(::testing::HasSubstr("warning: "))) << what;
    return;
  }
  EXPECT_EQ(outcome.code, 1) << what;
  ASSERT_EQ(lines.size(), 1u) << what;
  EXPECT_THAT(lines[0], ::testing::StartsWith("adjoin: rank " + std::to_string(call.rank) + ": ")) << what;
}

// The first calls of a job are the same in all tours, and many are alike: for every change some are tried, spread over all.
TEST(MpiFaults, of_a_single_call_end_the_job_in_one_line_or_do_no_harm) {
  std::vector<CallOfRank> calls;
  for (int kind = 0; kind < 3; ++kind) {
    const std::vector<CallOfRank> of_kind = calls_of(kind);
    EXPECT_GT(of_kind.size(), 60u) << "tour " << kind;
    calls.insert(calls.end(), of_kind.begin(), of_kind.end());
  }
  const auto tried = std::min<size_t>(calls.size(), 5 * static_cast<size_t>(test::scale()));
  for (size_t i = 0; i < tried; ++i) expect_one_line_or_none(calls[(2 * i + 1) * calls.size() / (2 * tried)]);
}

TEST(MpiJob, goes_on_without_the_watchdog_where_processes_share_no_memory) {
  for (const char* fault : {"0:memfd_create", "1:open"}) {
    const Outcome outcome = tour(0, std::string("ADJOIN_MPI_FAULT=") + fault);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_THAT(own_lines(outcome.text),
                ::testing::ElementsAre(::testing::StartsWith(
                    "adjoin: warning: deadlocks and missed deadlines will not be reported, since this host's processes "
                    "share no memory: ")));
  }
}

}  // namespace
}  // namespace adjoin
