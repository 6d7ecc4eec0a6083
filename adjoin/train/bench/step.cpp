#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <random>

#include "adjoin/base/error.hpp"
#include "adjoin/data/sampler.hpp"
#include "adjoin/lab/measure/timing.hpp"
#include "adjoin/movement/device_runtime.hpp"
#include "adjoin/movement/peak_memory.hpp"
#include "adjoin/task/precision.hpp"
#include "adjoin/texts/language_modelling.hpp"
#include "adjoin/texts/text_classification.hpp"
#include "adjoin/train/bench/benches.hpp"
#include "adjoin/train/bench/vocabularies.hpp"
#include "adjoin/train/trainer.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {
namespace {

/// `count` samples of random tokens below `words`, each of `length` tokens.
data::TokenStore random_samples(const Configuration& configuration, int64_t count, int64_t length, int64_t words) {
  std::mt19937_64 random(static_cast<uint64_t>(configuration.seed));
  data::TokenStoreBuilder samples(configuration.vocabulary_size);
  std::vector<int64_t> ids(static_cast<size_t>(length));
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t& id : ids) id = static_cast<int64_t>(random() % static_cast<uint64_t>(words));
    samples.add(ids, i % 2);
  }
  return samples.finish();
}

/// The task of the configuration's model, on a batch's worth of full-length samples.
std::unique_ptr<Task> random_task(const Configuration& c) {
  const int64_t words = c.vocabulary_size;
  if (c.model != ModelKind::decoder)
    return std::make_unique<TextClassification>(
        c, TrainingInput{{words_of(words), data::ClassNames()}, random_samples(c, c.batch, c.sequence, words), {}});
  const auto document = [&](int64_t tokens) {  // it does not end before its last token
    return data::DocumentTokens{.name = "random",
                                .tokens = random_samples(c, 1, tokens, words - 1),
                                .counts = {.documents = 1, .bytes = tokens, .tokens = tokens},
                                .words = words,
                                .end_of_document = words - 1};
  };
  return std::make_unique<LanguageModelling>(
      c, LanguageInput{std::make_shared<Numbers>(words), document(c.batch * c.sequence + 1), document(2)});
}

/// The matrix products of one rank's training step, and nothing else: for each linear layer forward, the gradient of its input
/// and that of its weight; for attention two products forward and four backward, in a decoder only where nothing is hidden.
class MatrixProducts {
 public:
  /// `length`: the number of tokens of a sample.
  MatrixProducts(const Configuration& c, const Trainer& trainer, int64_t length) : is_causal_(c.is_decoder()) {
    const Communicator& parts = batch_ranks(trainer.grid());
    const int64_t samples = data::part_of(c.batch, parts.rank(), parts.size()).count;
    const int64_t queries = length / c.cp, rows = samples * queries;  // queries: of each sample, on this rank
    const at::TensorOptions type = trainer.tensor().dtype(product_type(c.precision));
    const auto add = [&](const at::Tensor& weight, int64_t of_rows, int64_t parts_of_weight = 1) {
      const int64_t in = weight.size(1), out = weight.size(0) / parts_of_weight;
      Linear& linear = linear_[{of_rows, in, out}];
      if (linear.times++ > 0) return;
      linear.x = at::randn({of_rows, in}, type);
      linear.weight = at::randn({out, in}, type);
      linear.gradient = at::randn({of_rows, out}, type);
    };
    const auto weights = trainer.module().named_parameters();
    const int64_t size = c.features_of_head();
    int64_t heads = 0;
    for (const auto& item : weights) {
      const std::string& name = item.key();
      const std::string block = name.substr(0, name.find('.')), router = block + ".feed_forward.router.weight";
      if (!block.starts_with("block") || item->dim() != 2 || name == router) continue;
      const bool is_of_experts = name.starts_with(block + ".feed_forward") && weights.contains(router);
      if (is_of_experts)  // with the rows of all of them, as if for one expert
        add(item.value(), rows * expert_options(c).top_k, c.experts.count / c.ep);
      else
        add(item.value(), rows);
      if (name != block + ".attention.out.weight") continue;
      heads = item->size(1) / size;
      ++layers_;
    }
    const Stages& stages = trainer.stages();
    if (c.is_decoder() && stages.pp_of(stages.count() - 1) == trainer.grid().coordinate("pp"))
      add(weights[c.tied_scores ? "embedding.weight" : "scores.weight"], rows);
    queries_ = at::randn({samples * heads, queries, size}, type);
    keys_ = at::randn({samples * heads, length, size}, type);
    scores_ = at::randn({samples * heads, std::min(queries, at_once()), length}, type);
  }

  void run() const {
    for (const auto& [sizes, linear] : linear_)
      for (int64_t i = 0; i < linear.times; ++i) {
        at::mm(linear.x, linear.weight.t());
        at::mm(linear.gradient, linear.weight);
        at::mm(linear.gradient.t(), linear.x);
      }
    const int64_t all = queries_.size(1), length = keys_.size(1);
    for (int64_t layer = 0; layer < layers_; ++layer)
      for (int64_t begin = 0; begin < all; begin += at_once()) {
        const int64_t count = std::min(at_once(), all - begin);
        const int64_t seen = is_causal_ ? length * (begin + count) / all : length;  // for a rank's share of all queries
        const at::Tensor queries = queries_.narrow(1, begin, count), keys = keys_.narrow(1, 0, seen);
        const at::Tensor scores = scores_.narrow(1, 0, count).narrow(2, 0, seen);
        for (int i = 0; i < 2; ++i) {
          at::bmm(queries, keys.transpose(1, 2));
          at::bmm(scores, keys);
          at::bmm(scores.transpose(1, 2), queries);
        }
      }
  }

 private:
  struct Linear {
    at::Tensor x{}, weight{}, gradient{};
    int64_t times = 0;  // number of layers of these sizes
  };
  /// Number of queries at once: the scores of all could take more memory than the step. For causal attention it is small, so
  /// that most hidden scores are skipped.
  int64_t at_once() const { return is_causal_ ? 128 : 1024; }

  bool is_causal_;
  int64_t layers_ = 0;
  std::map<std::array<int64_t, 3>, Linear> linear_;  // by rows, and features in and out
  at::Tensor queries_, keys_, scores_;
};

}  // namespace

BenchStepResult bench_step(const BenchStepOptions& options) {
  const Configuration& c = options.configuration;
  validate(c);
  require(options.steps >= 0 && options.warm_up >= 0, "bench step: expected 0 or more steps");
  check_schedule(c);
  const std::unique_ptr<Task> task = random_task(c);
  stages_of(c, task->segments());  // throws for too many
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < c.batch; ++i) samples.push_back(i);
  BenchStepResult result;
  run_workers(c, [&](const Communicator& world) {
    PeakMemory memory;
    Trainer trainer(c, *task, world);
    trainer.initialize();
    trainer.optimizer();  // its moments exist in each step
    int64_t step = 0, tokens = 0;
    const c10::Device device = trainer.tensor().device();
    const auto train = [&] {
      tokens += trainer.step(samples, step++, c.lr).tokens;
      synchronize(device);
    };
    memory.reset_peak();
    train();
    const std::vector<int64_t> peaks = memory.peak_bytes_of_all(world);
    if (is_first_of_process(world)) result.peak_memory_bytes = peaks;
    if (options.steps == 0) return;
    for (int64_t i = 1; i < options.warm_up; ++i) train();
    tokens = 0;
    BubbleMeter meter(trainer.stages().schedule);
    if (c.pp > 1) trainer.observe([&](const pipeline::Action& action, double seconds) { meter.note(action, seconds); });
    const double seconds = measure::median_seconds(options.steps, world, [&] {
      meter.begin_step();
      train();
    });
    const std::optional<Bubble> bubble = c.pp > 1 ? std::optional(meter.bubble(world)) : std::nullopt;

    const at::NoGradGuard no_gradient;
    const MatrixProducts products(
        c, trainer, std::llround(static_cast<double>(tokens) / static_cast<double>(options.steps * c.batch)));
    measure::let_threads_sleep(world);
    const auto multiply = [&] {
      products.run();
      synchronize(device);
    };
    multiply();
    const double alone = measure::median_seconds(options.steps, world, multiply);
    if (!is_first_of_process(world)) return;
    result.step_seconds = seconds;
    result.samples_per_second = static_cast<double>(c.batch) / seconds;
    result.matmul_fraction = alone / seconds;
    result.bubble = bubble;
  });
  return result;
}

}  // namespace adjoin::train
