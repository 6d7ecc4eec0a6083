#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/linalg/products.hpp"
#include "adjoin/nn/sequence/attention.hpp"
#include "adjoin/pipeline/simulation.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/train/bench/bubble.hpp"
#include "adjoin/train/bench/side_by_side.hpp"

namespace adjoin::train {

/// The options of `adjoin bench attention`.
struct BenchAttentionOptions {
  SideBySideOptions run;
  std::optional<nn::AttentionMethod> method = nn::AttentionMethod::ring;  // none: LibTorch's, on one worker
  bool causal = false;
  double dropout = 0;
  int64_t length = 8192, heads = 4, size = 64;  // T rows in total, and the size of a head
};

/// Times attention of one sample with split rows, forward and backward, in float32, beside LibTorch's own on one worker, which
/// has no dropout. With a causal mask or dropout, also beside the same method without either.
Comparison bench_attention(const BenchAttentionOptions& options);

/// The options of `adjoin bench layers`.
struct BenchLayersOptions {
  SideBySideOptions run{.workers = {}, .times = 20};
  std::string cut = "height";                    // "batch", "channels", "height" or "width" of the pictures
  int64_t batch = 4, channels = 64, size = 256;  // of the pictures; their height equals their width
  int64_t rows = 1024, features = 4096;          // of the linear layer, whose weight is cut by outputs
};

/// The names of the layers: "conv", "max-pool", "batch-norm", "upsample", "linear", and "network", which has many of them.
const std::vector<std::string>& bench_layer_names();

/// Times layers one after another, forward and backward including the sums of their gradients, in float32, beside torch::nn's
/// on one worker.
/// Throws: InvalidArgument for an unknown layer or cut
std::vector<Comparison> bench_layers(const std::vector<std::string>& layers, const BenchLayersOptions& options);

/// The options of `adjoin bench matmul`.
struct BenchMatmulOptions {
  SideBySideOptions run;
  linalg::Product product = linalg::Product::nt;
  std::optional<int64_t> chunk;           // none: auto
  int64_t length = 8192, features = 768;  // T rows in total, and D
};

/// Times a product of matrices that are split over rows, forward and backward, in float32, beside LibTorch's own product on one
/// worker.
Comparison bench_matmul(const BenchMatmulOptions& options);

/// The options of `adjoin bench moves`.
struct BenchMovesOptions {
  SideBySideOptions run{.workers = {}, .times = 21};
  int64_t rows = 4096, columns = 4096;  // of a float32 matrix
};

/// Times a move of the matrix from rows to columns, beside at::empty_like(x).copy_(x) by one worker with the threads of all. On
/// a matrix of at most 256 x 256 it also times a prepared halo exchange of one row on each side, beside the bare exchange of
/// the same boxes with a copy of the interior into a new tensor.
std::vector<Comparison> bench_moves(const BenchMovesOptions& options);

/// The options of `adjoin bench pipeline`.
struct BenchPipelineOptions {
  pipeline::Schedule schedule;
  pipeline::StageCosts costs;        // seconds that all stages of a rank together sleep for one micro-batch
  int64_t times = 3;                 // measurements
  std::string host_memory = "auto";  // as in WorkerOptions
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
