// build/release/bench/bench_checkpoints FOLDER, also under mpirun -n 2
//
// Times saving and loading a checkpoint on two data-parallel ranks (or two tensor-parallel ones, with --tp). For comparison it
// times dd that writes as many bytes and flushes them, dd that reads them, and the ranks that only read into memory the bytes
// that each loads. A third of the MiB are weights, the rest AdamW's moments, in matrices of 4 MiB. Files are cached. All take
// turns; prints medians.

#include <ATen/ops/full.h>

#include <fcntl.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/lab/measure/timing.hpp"
#include "adjoin/partition/shard.hpp"
#include "adjoin/store/checkpoint.hpp"
#include "adjoin/store/checkpoint_folders.hpp"
#include "adjoin/store/checkpoint_save.hpp"
#include "adjoin/train/saved_model.hpp"
#include "adjoin/train/workers.hpp"

using namespace adjoin;

namespace {

constexpr int64_t kRows = 1024, kColumns = 1024;

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Matrices by name: weights, copied along dp or cut by columns along tp, or AdamW's moments, which are shards.
std::vector<nn::Parameter> pieces(const Grid& grid, int64_t count, bool are_moments) {
  std::vector<Layout::Cut> cuts;
  if (grid.shape().axis_size("tp") > 1)
    cuts.push_back({Split::balanced(kColumns, grid.shape().axis_size("tp"), 1), {"tp"}});
  const Layout whole(grid.shape(), {kRows, kColumns}, cuts, {{"dp", Kind::copied}});
  const Layout layout = are_moments ? sharded(whole) : whole;
  std::vector<nn::Parameter> all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back(
        {"block" + std::to_string(i), at::full(layout.shape_on(grid.world().rank()), 0.1f), layout, grid, {}});
  return all;
}

void run_dd(const std::string& arguments) {
  if (std::system(("dd bs=1M " + arguments + " status=none").c_str()) != 0) std::perror("dd");
}

void measure_checkpoints(const Communicator& world, const std::filesystem::path& folder, int64_t mib, int turns,
                         bool tp) {
  const Grid grid(world, {{"dp", tp ? 1 : world.size()}, {"tp", tp ? world.size() : 1}});
  const std::vector<nn::Parameter> weights = pieces(grid, mib / 12, false), moments = pieces(grid, mib / 6, true);
  const train::CheckpointContent content{.states = {{train::kWeightsFile, weights}, {train::kMomentsFile, moments}},
                                         .name = "bench",
                                         .state = nlohmann::ordered_json::object()};
  const train::CheckpointSave::Place place{folder, 1, 1};
  const std::string file = (folder / "dd").string();
  int64_t loaded = 0;
  for (const auto* all : {&weights, &moments})
    for (const nn::Parameter& piece : *all) loaded += static_cast<int64_t>(piece.tensor.nbytes());
  std::vector<char> bytes(static_cast<size_t>(loaded), 1);
  const auto read_bytes = [&] {
    const int descriptor = ::open(file.c_str(), O_RDONLY);
    const auto place = static_cast<off_t>(((mib << 20) - loaded) * world.rank());
    for (int64_t done = 0, at_once = 1 << 20; done < loaded; done += at_once)
      if (::pread(descriptor, bytes.data() + done, static_cast<size_t>(std::min(at_once, loaded - done)),
                  place + done) <= 0)
        std::perror(file.c_str());
    ::close(descriptor);
  };
  std::vector<double> write, read, fill, waiting, stall, load;
  for (int turn = 0; turn <= turns; ++turn) {
    const auto take = [&](std::vector<double>& times, const std::function<void()>& work) {
      world.barrier();
      const double seconds = seconds_of([&] { work(), world.barrier(); });
      if (turn > 0) times.push_back(seconds);
    };
    const auto on_first = [&](const std::string& arguments) {
      return [&world, arguments] {
        if (world.rank() == 0) run_dd(arguments);
      };
    };
    take(write, on_first("if=/dev/zero of=" + file + " conv=fsync count=" + std::to_string(mib)));
    take(waiting, [&] { train::CheckpointSave(place, content, world, /*copies=*/false).finish(); });
    take(read, on_first("of=/dev/null if=" + file));
    take(fill, read_bytes);
    take(load, [&] {
      const auto checkpoint = train::checkpoints_in(folder).front().path;
      train::load_state(checkpoint / train::kWeightsFile, weights);
      train::load_state(checkpoint / train::kMomentsFile, moments);
    });
    // The time for which the run waits when it goes on during the save.
    std::optional<train::CheckpointSave> saving;
    take(stall, [&] { saving.emplace(place, content, world, /*copies=*/true); });
    saving->finish();
  }
  if (world.rank() != 0) return;
  std::printf("%lld MiB, medians of %d turns\n", static_cast<long long>(mib), turns);
  const auto line = [](const char* what, const std::vector<double>& times, const char* of = "", double other = 1) {
    const double seconds = measure::median(times);
    std::printf("  %-42s %7.3f s", what, seconds);
    if (*of != 0) std::printf("  %.2f of %s", seconds / other, of);
    std::printf("\n");
  };
  line("dd writes and flushes as many bytes", write);
  line("saving, --save wait", waiting, "that", measure::median(write));
  line("what the run waits for, --save background", stall);
  line("dd reads as many bytes", read);
  line("ranks read what they load into memory", fill);
  line("loading", load, "dd's", measure::median(read));
}

/// Throws: InvalidArgument for a folder that is not empty
void make_empty(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require(!error, [&] { return folder.string() + ": " + error.message(); });
  require(std::filesystem::is_empty(folder),
          [&] { return folder.string() + ": is not empty; expected a folder to fill"; });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What saving and loading a checkpoint costs two ranks, threads or of mpirun -n 2, beside dd.");
  std::string folder;
  int mib = 1024, turns = 5;
  bool tp = false;
  app.add_option("folder", folder, "New or empty folder, which is removed at the end")->required();
  app.add_option("--size", mib, "MiB of weights and moments")->check(CLI::Range(12, 1 << 20))->capture_default_str();
  app.add_option("--turns", turns, "Measurements of each")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_flag("--tp", tp, "Ranks that cut the columns, in place of data-parallel ones");
  CLI11_PARSE(app, argc, argv);
  try {
    if (mpi_job_rank() == 0) make_empty(folder);
    const train::WorkerOptions workers{
        {{.dp = 2}, /*zero=*/1, train::Workers::automatic, "cpu", /*threads_per_rank=*/1}};
    train::run_workers(workers, [&](const Communicator& world) { measure_checkpoints(world, folder, mib, turns, tp); });
    if (mpi_job_rank() == 0) std::filesystem::remove_all(folder);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_checkpoints: %s\n", error.what());
    return 2;
  }
}
