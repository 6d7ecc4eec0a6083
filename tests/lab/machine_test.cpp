#include "adjoin/lab/machine.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "adjoin/comm/launch.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin {
namespace {

using test::TemporaryFolder;

/// A tree that looks like /proc and /sys.
class MachineFiles : public ::testing::Test {
 protected:
  void put(const std::filesystem::path& file, const std::string& contents) {
    std::filesystem::create_directories((root_ / file).parent_path());
    test::put(root_ / file, contents);
  }
  Machine read() const { return this_machine(root_.path()); }
  TemporaryFolder root_;
};

constexpr int64_t kGiB = int64_t{1} << 30;

TEST_F(MachineFiles, that_are_missing_leave_what_is_always_true) {
  const Machine machine = read();
  EXPECT_NE(machine.host, "");
  EXPECT_GE(machine.usable_cores, 1);
  EXPECT_LE(machine.usable_cores, machine.cores);
  EXPECT_EQ(machine.numa_nodes, 1);
  EXPECT_EQ(machine.memory, 0);
  EXPECT_EQ(machine.memory_limit, 0);
  EXPECT_NE(machine.simd, "");
}

TEST_F(MachineFiles, tell_memory_and_numa_nodes) {
  put("proc/meminfo", "Buffers: 5 kB\nMemTotal:       16777216 kB\nMemFree: 1 kB\n");
  for (const char* name : {"node0", "node1", "node12"})
    put(std::filesystem::path("sys/devices/system/node") / name / "cpulist", "0");
  put("sys/devices/system/node/possible", "0-63");
  EXPECT_EQ(read().memory, 16 * kGiB);
  EXPECT_EQ(read().memory_limit, 0);
  EXPECT_EQ(read().numa_nodes, 3);
}

TEST_F(MachineFiles, tell_the_least_limit_of_a_cgroup_and_those_above_it) {
  put("proc/meminfo", "MemTotal: 16777216 kB\n");
  put("proc/self/cgroup", "0::/job/step\n");
  put("sys/fs/cgroup/job/memory.max", "4294967296\n");
  put("sys/fs/cgroup/job/step/memory.max", "max\n");
  put("sys/fs/cgroup/job/step/cpu.max", "100000 100000\n");
  put("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  EXPECT_EQ(read().memory_limit, 4 * kGiB);
  EXPECT_EQ(read().usable_cores, 1);
}

TEST_F(MachineFiles, tell_the_limits_of_the_first_version_of_cgroups) {
  put("proc/meminfo", "MemTotal: 16777216 kB\n");
  put("proc/self/cgroup", "4:memory:/box\n1:cpu,cpuacct:/box\n0::/\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  put("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1073741824\n");
  put("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "150000\n");
  put("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(read().memory_limit, kGiB);
  EXPECT_EQ(read().usable_cores, 1);
}

TEST_F(MachineFiles, of_a_container_may_show_its_own_cgroup_at_the_top) {
  put("proc/meminfo", "MemTotal: 16777216 kB\n");
  put("proc/self/cgroup", "0::/not/visible/here\n");
  put("sys/fs/cgroup/memory.max", "2147483648\n");
  EXPECT_EQ(read().memory_limit, 2 * kGiB);
}

TEST(Machine, has_as_many_usable_cores_as_the_standard_library_sees_or_fewer) {
  const Machine machine = this_machine();
  EXPECT_GE(machine.usable_cores, 1);
  EXPECT_LE(machine.usable_cores, static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_GT(machine.memory, 0);
}

TEST(Machine, has_the_name_that_slurm_gave_it_or_its_own) {
  char own[256] = "";
  ASSERT_EQ(::gethostname(own, sizeof own), 0);
  ::unsetenv("SLURMD_NODENAME");
  EXPECT_EQ(this_machine().host, own);
  ::setenv("SLURMD_NODENAME", "n17", 1);
  EXPECT_EQ(this_machine().host, "n17");
  ::unsetenv("SLURMD_NODENAME");
}

TEST(MpiLibrary, tells_its_version_in_one_line_and_its_thread_level_while_it_is_alive) {
  EXPECT_NE(mpi_library_version(), "");
  EXPECT_EQ(mpi_library_version().find('\n'), std::string::npos);
  EXPECT_EQ(mpi_thread_level(), started_by_mpi() ? "multiple" : "");  // the tests' main initialises MPI under mpirun
}

}  // namespace
}  // namespace adjoin
