#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/linalg/products.hpp"
#include "adjoin/nn/sequence/attention.hpp"
#include "adjoin/pipeline/simulation.hpp"
#include "adjoin/train/bench/bubble.hpp"
#include "adjoin/train/bench/side_by_side.hpp"
#include "adjoin/train/configuration.hpp"

namespace adjoin::train {

/// What `adjoin bench attention` is asked.
struct BenchAttentionOptions {
  SideBySideOptions run;
  std::optional<nn::AttentionMethod> method = nn::AttentionMethod::ring;  // none: LibTorch's own, on one worker
  bool causal = false;
  double dropout = 0;
  int64_t length = 8192, heads = 4, size = 64;  // rows T in all, and the size of a head
};

/// Times attention of one sample whose rows are split, forward and backward, in float32, beside LibTorch's own on one
/// worker, which has no dropout; and where it is causal or drops, beside the same method that does neither.
Comparison bench_attention(const BenchAttentionOptions& options);

/// What `adjoin bench layers` is asked.
struct BenchLayersOptions {
  SideBySideOptions run{.workers = {}, .times = 20};
  std::string cut = "height";                    // "batch", "channels", "height" or "width", of pictures
  int64_t batch = 4, channels = 64, size = 256;  // of the pictures, whose height is their width
  int64_t rows = 1024, features = 4096;          // of the linear layer, whose weight is cut by outputs
};

/// The layers that it knows: "conv", "max-pool", "batch-norm", "upsample", "linear", and "network" of many of them.
const std::vector<std::string>& bench_layer_names();

/// Times layers one after another, forward and backward with the sum of their gradients, in float32, beside torch::nn's on
/// one worker.
/// Throws: InvalidArgument for a layer or a cut that is none of those
std::vector<Comparison> bench_layers(const std::vector<std::string>& layers, const BenchLayersOptions& options);

/// What `adjoin bench matmul` is asked.
struct BenchMatmulOptions {
  SideBySideOptions run;
  linalg::Product product = linalg::Product::nt;
  std::optional<int64_t> chunk;           // none: auto
  int64_t length = 8192, features = 768;  // rows T in all, and D
};

/// Times a product of matrices that are split over rows, forward and backward, in float32, beside LibTorch's own on one
/// worker.
Comparison bench_matmul(const BenchMatmulOptions& options);

/// What `adjoin bench moves` is asked.
struct BenchMovesOptions {
  SideBySideOptions run{.workers = {}, .times = 21};
  int64_t rows = 4096, columns = 4096;  // of a float32 matrix
};

/// Times a move of the matrix from rows to columns beside at::empty_like(x).copy_(x) of it by one worker with the threads of
/// all; and on a matrix of at most 256 x 256 a prepared halo exchange of a row on each side beside the bare exchange of the
/// same boxes with a copy of the interior into a new tensor.
std::vector<Comparison> bench_moves(const BenchMovesOptions& options);

/// What `adjoin bench pipeline` is asked.
struct BenchPipelineOptions {
  pipeline::Schedule schedule;
  pipeline::StageCosts costs;        // seconds in which all stages of a rank together sleep, for one micro-batch
  int64_t times = 3;                 // measurements
  std::string host_memory = "auto";  // as of WorkerOptions
};

struct BenchPipelineResult {
  double measured = 0, simulated = 0;  // seconds from the first action's begin to the last one's end; median
};

/// Runs a schedule by parallel::run_pipeline on stages that sleep, and simulates it with free transfers; a thread or a process
/// of an MPI job is a rank. The same on every process.
BenchPipelineResult bench_pipeline(const BenchPipelineOptions& options);

/// What `adjoin bench step` is asked: a model and a layout, and how often to measure.
struct BenchStepOptions {
  Configuration configuration;
  int64_t steps = 10;   // measured
  int64_t warm_up = 3;  // run before them, not measured
};

struct BenchStepResult {
  double step_seconds = 0;  // median
  double samples_per_second = 0;
  double matmul_fraction = 0;              // of the speed that the machine's matrix products reach alone
  std::vector<int64_t> peak_memory_bytes;  // of each rank's tensors, in the first step
  std::optional<Bubble> bubble;            // with --pp
};

/// Times training steps on random tokens; the same on every process of an MPI job.
BenchStepResult bench_step(const BenchStepOptions& options);

}  // namespace adjoin::train
