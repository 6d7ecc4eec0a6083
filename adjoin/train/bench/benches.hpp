#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/pipeline/simulation.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/train/bench/bubble.hpp"

namespace adjoin::train {

/// The options of `adjoin bench pipeline`.
struct BenchPipelineOptions {
  pipeline::Schedule schedule;
  pipeline::StageCosts costs;  // seconds that all stages of a rank together sleep for one micro-batch
  int64_t times = 3;           // measurements
  HostMemory host_memory = HostMemory::automatic;  // as in RankOptions
};

struct BenchPipelineResult {
  double measured = 0, simulated = 0;  // seconds from the begin of the first action to the end of the last; median
};

/// Runs a schedule by parallel::run_pipeline on stages that sleep, and simulates it with free transfers. A rank is a thread, or
/// a process of an MPI job. The result is the same on every process.
BenchPipelineResult bench_pipeline(const BenchPipelineOptions& options);

/// The options of `adjoin bench step`: a model, a layout, and the number of measurements.
struct BenchStepOptions {
  Configuration configuration;
  int64_t steps = 10;   // measured
  int64_t warm_up = 3;  // steps before them, not measured
};

struct BenchStepResult {
  double step_seconds = 0;  // median
  double samples_per_second = 0;
  double matmul_fraction = 0;              // share of the speed that matrix products alone reach on the machine
  std::vector<int64_t> peak_memory_bytes;  // of each rank's tensors, in the first step
  std::optional<Bubble> bubble;            // with --pp
};

/// Times training steps on random tokens. The result is the same on every process of an MPI job.
BenchStepResult bench_step(const BenchStepOptions& options);

}  // namespace adjoin::train
