#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <random>

#include "adjoin/base/error.hpp"
#include "adjoin/data/sampler.hpp"
#include "adjoin/lab/measure/timing.hpp"
#include "adjoin/train/peak_memory.hpp"
#include "adjoin/train/run.hpp"
#include "adjoin/train/text/text_classification.hpp"
#include "adjoin/train/trainer.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {
namespace {

/// A vocabulary of so many pieces, which nobody reads.
data::WordPiece words_of(int64_t size) {
  std::vector<std::string> pieces{"[PAD]", "[UNK]", "[CLS]", "[SEP]"};
  for (int64_t id = std::ssize(pieces); id < size; ++id) pieces.push_back(std::to_string(id));
  return data::WordPiece(std::move(pieces));
}

/// A batch's worth of full-length samples of random tokens.
data::TokenStore random_samples(const Configuration& configuration) {
  std::mt19937_64 random(static_cast<uint64_t>(configuration.seed));
  data::TokenStoreBuilder samples(configuration.vocabulary_size);
  std::vector<int64_t> ids(static_cast<size_t>(configuration.sequence));
  for (int64_t i = 0; i < configuration.batch; ++i) {
    for (int64_t& id : ids) id = static_cast<int64_t>(random() % static_cast<uint64_t>(configuration.vocabulary_size));
    samples.add(ids, i % 2);
  }
  return samples.finish();
}

/// The middle of the seconds that `work` takes, its workers beginning and ending together.
double median_seconds(int64_t times, const Communicator& world, const std::function<void()>& work) {
  std::vector<double> seconds;
  for (int64_t i = 0; i < times; ++i) {
    world.barrier();
    const auto begin = std::chrono::steady_clock::now();
    work();
    world.barrier();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return measure::median(seconds);
}

/// The matrix products of one training step of one rank, and nothing else: each linear layer's forward, the gradient of
/// its input and that of its weight; and for attention two products forward and four backward.
class MatrixProducts {
 public:
  /// `length`: the tokens of a sample that are gone through.
  MatrixProducts(const Configuration& c, const Grid& grid, int64_t length) : layers_(c.layers) {
    const at::TensorOptions type = c.precision == "fp64"   ? at::kDouble
                                   : c.precision == "bf16" ? at::kBFloat16
                                   : c.precision == "fp16" ? at::kHalf
                                                           : at::kFloat;
    const Communicator& dp = grid.axis("dp");
    const Communicator& tp = grid.axis("tp");
    const int64_t queries = length / c.cp;  // of each sample that are here
    const int64_t samples = data::part_of(c.batch, dp.rank(), dp.size()).count;
    const int64_t heads = Split::balanced(c.heads, tp.size(), 0).size(tp.rank()), size = c.hidden / c.heads;
    const int64_t features = heads * size, inner = Split::balanced(4 * c.hidden, tp.size(), 0).size(tp.rank());
    const std::pair<int64_t, int64_t> shapes[] = {
        {c.hidden, 3 * features}, {features, c.hidden}, {c.hidden, inner}, {inner, c.hidden}};
    for (const auto& [in, out] : shapes)
      linears_.push_back({at::randn({samples * queries, in}, type), at::randn({out, in}, type),
                          at::randn({samples * queries, out}, type)});
    queries_ = at::randn({samples * heads, queries, size}, type);
    keys_ = at::randn({samples * heads, length, size}, type);
    scores_ = at::randn({samples * heads, std::min(queries, kScoresAtOnce), length}, type);
  }

  void run() const {
    for (int64_t layer = 0; layer < layers_; ++layer) {
      for (const Linear& linear : linears_) {
        at::mm(linear.x, linear.weight.t());
        at::mm(linear.gradient, linear.weight);
        at::mm(linear.gradient.t(), linear.x);
      }
      for (int64_t begin = 0; begin < queries_.size(1); begin += kScoresAtOnce) {
        const int64_t count = std::min(kScoresAtOnce, queries_.size(1) - begin);
        const at::Tensor queries = queries_.narrow(1, begin, count), scores = scores_.narrow(1, 0, count);
        for (int i = 0; i < 2; ++i) {
          at::bmm(queries, keys_.transpose(1, 2));
          at::bmm(scores, keys_);
          at::bmm(scores.transpose(1, 2), queries);
        }
      }
    }
  }

 private:
  static constexpr int64_t kScoresAtOnce = 1024;  // of queries: all could take more memory than the step
  struct Linear {
    at::Tensor x, weight, gradient;
  };
  int64_t layers_;
  std::vector<Linear> linears_;
  at::Tensor queries_, keys_, scores_;
};

}  // namespace

BenchStepResult bench_step(const BenchStepOptions& options) {
  const Configuration& c = options.configuration;
  validate(c);
  require(options.steps >= 0 && options.warm_up >= 0, "bench step: expected 0 or more steps");
  const TextClassification task(c, {{words_of(c.vocabulary_size), data::ClassNames()}, random_samples(c), {}});
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < c.batch; ++i) samples.push_back(i);
  BenchStepResult result;
  run_workers(worker_options(c), [&](const Communicator& world) {
    PeakMemory memory;
    Trainer trainer(c, task, world);
    trainer.initialize();
    trainer.optimizer();  // whose moments are there in each step
    int64_t step = 0, tokens = 0;
    const auto train = [&] { tokens += trainer.step(samples, step++, c.lr).tokens; };
    memory.reset_peak();
    train();
    const std::vector<int64_t> peaks = memory.peak_bytes_of_all(world);
    if (speaks_for_process(world)) result.peak_memory_bytes = peaks;
    if (options.steps == 0) return;
    for (int64_t i = 1; i < options.warm_up; ++i) train();
    tokens = 0;
    const double seconds = median_seconds(options.steps, world, train);

    const at::NoGradGuard no_gradient;
    const MatrixProducts products(
        c, trainer.grid(), std::llround(static_cast<double>(tokens) / static_cast<double>(options.steps * c.batch)));
    products.run();
    const double alone = median_seconds(options.steps, world, [&] { products.run(); });
    if (!speaks_for_process(world)) return;
    result.step_seconds = seconds;
    result.samples_per_second = static_cast<double>(c.batch) / seconds;
    result.matmul_fraction = alone / seconds;
  });
  return result;
}

}  // namespace adjoin::train
