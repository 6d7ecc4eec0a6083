#include "adjoin/train/trainer.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/ops/full_like.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/cross_entropy.hpp"
#include "adjoin/train/interrupt.hpp"
#include "adjoin/train/optimizer.hpp"

namespace adjoin::train {
namespace {

/// Matrix products in a 16-bit type while it lives, where a precision has one.
class Autocast {
 public:
  explicit Autocast(const std::string& precision) : before_(at::autocast::is_autocast_enabled(at::kCPU)) {
    at::autocast::set_autocast_dtype(at::kCPU, precision == "fp16" ? at::kHalf : at::kBFloat16);
    // The cache of cast weights belongs to the process: one worker's clearing would drop the others' casts.
    at::autocast::set_autocast_cache_enabled(false);
    at::autocast::set_autocast_enabled(at::kCPU, precision == "bf16" || precision == "fp16");
  }
  ~Autocast() { at::autocast::set_autocast_enabled(at::kCPU, before_); }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool before_;
};

GridShape grid_shape(const Configuration& configuration, const Communicator& world) {
  require(configuration.dp * configuration.tp == world.size(), [&] {
    return "--dp " + std::to_string(configuration.dp) + " times --tp " + std::to_string(configuration.tp) + " needs " +
           std::to_string(configuration.dp * configuration.tp) + " ranks, there are " + std::to_string(world.size());
  });
  return GridShape({{"dp", static_cast<int>(configuration.dp)}, {"tp", static_cast<int>(configuration.tp)}});
}

/// Whether any worker was interrupted, which all act on together.
bool any_interrupted(const Communicator& world) {
  std::array<int32_t, 1> flag{interrupted()};
  world.all_reduce(buffer(flag), Reduction::max);
  return flag[0] != 0;
}

double correct(const at::Tensor& scores, const at::Tensor& labels) {
  if (labels.numel() == 0) return 0;
  return static_cast<double>((scores.argmax(-1) == labels).sum().item<int64_t>());
}

}  // namespace

models::TextClassifierOptions model_options(const Configuration& configuration, int64_t words, int64_t classes) {
  models::TextClassifierOptions options{.words = words,
                                        .layers = configuration.layers,
                                        .hidden = configuration.hidden,
                                        .heads = configuration.heads,
                                        .classes = classes,
                                        .dropout = configuration.dropout};
  if (configuration.positions == "learned") options.positions = configuration.sequence;
  options.scale_by_head = configuration.score_scale == "head";
  options.final_norm = configuration.final_norm;
  options.mean_pooling = configuration.pooling == "mean";
  options.tensor = configuration.precision == "fp64" ? at::kDouble : at::kFloat;
  return options;
}

Trainer::Trainer(const Configuration& configuration, const Communicator& world, int64_t words, int64_t classes)
    : configuration_(configuration), grid_(world, grid_shape(configuration, world)), classes_(classes) {
  model_ = models::TextClassifier(model_options(configuration, words, classes), grid_, "tp");
}

void Trainer::initialize() {
  nn::initialize(*model_, static_cast<uint64_t>(configuration_.seed));
}

parallel::Optimizer& Trainer::optimizer() {
  if (!optimizer_) optimizer_.emplace(make_optimizer(configuration_, nn::parameters_of(*model_)));
  return *optimizer_;
}

at::Tensor Trainer::forward(const Batch& batch, StepContext context) {
  const Autocast autocast(configuration_.precision);
  context.first_sample = batch.first_sample;
  context.rows = batch.rows;
  return model_(batch.ids, context);
}

StepResult Trainer::step(const data::TokenStore& dataset, std::span<const int64_t> samples, int64_t step,
                         double learning_rate, double loss_scale) {
  const auto seed = static_cast<uint64_t>(configuration_.seed);
  const auto microbatches = static_cast<int>(configuration_.microbatches);
  const data::BatchPart mine = part_of(samples);
  std::array<double, 4> sums{};  // of the loss, right scores, tokens and interrupts
  for (int i = 0; i < microbatches; ++i) {
    const Batch batch = make_batch(dataset, samples, data::part_of(mine, i, microbatches),
                                   {.p = configuration_.token_dropout, .seed = seed, .step = step});
    const at::Tensor scores = forward(batch, {.seed = seed, .step = step, .training = true});
    const at::Tensor loss = nn::cross_entropy(scores, batch.labels, std::ssize(samples));
    loss.backward(at::full_like(loss, loss_scale));
    sums[0] += loss.item<double>();
    sums[1] += correct(scores, batch.labels);
    sums[2] += static_cast<double>(batch.ids.numel());
  }
  const parallel::Update update = optimizer().step(learning_rate, loss_scale);

  // The ranks of tp know the same; rank 0 of them speaks. Any rank may have noted an interrupt.
  if (grid_.axis("tp").rank() != 0) sums = {};
  sums[3] = interrupted() ? 1 : 0;
  grid_.world().all_reduce(buffer(sums));
  return {.loss = sums[0],
          .accuracy = sums[1] / static_cast<double>(samples.size()),
          .gradient_norm = update.norm,
          .tokens = static_cast<int64_t>(sums[2]),
          .interrupted = sums[3] > 0,
          .skipped = update.skipped};
}

data::BatchPart Trainer::part_of(std::span<const int64_t> samples) const {
  const Communicator& dp = grid_.axis("dp");
  return data::part_of(std::ssize(samples), dp.rank(), dp.size());
}

at::Tensor Trainer::scores(const Batch& batch) {
  const at::NoGradGuard no_gradient;
  return forward(batch, {}).to(at::kDouble);
}

Evaluation Trainer::evaluate(const data::TokenStore& dataset, int64_t batch_samples) {
  require(batch_samples >= 1, "evaluate: expected batches of at least 1 sample");
  // Samples of about equal length share a batch, so that ranks have equally much to do.
  std::vector<int64_t> order(static_cast<size_t>(dataset.size()));
  std::iota(order.begin(), order.end(), int64_t{0});
  const std::vector<int64_t> lengths = dataset.lengths();
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return lengths[static_cast<size_t>(a)] < lengths[static_cast<size_t>(b)];
  });
  std::array<double, 1> loss{};
  ClassCounts counts(classes_);
  const auto at_once = static_cast<size_t>(batch_samples);
  for (size_t begin = 0; begin < order.size(); begin += at_once) {
    if (any_interrupted(grid_.world())) return {.interrupted = true};
    const auto samples = std::span(order).subspan(begin, std::min(at_once, order.size() - begin));
    const Batch batch = make_batch(dataset, samples, part_of(samples));
    const at::Tensor result = scores(batch);
    loss[0] += nn::cross_entropy(result, batch.labels, 1).item<double>();
    counts.add(result, batch.labels);
  }
  const auto sums = counts.counts();
  grid_.axis("dp").all_reduce(buffer(loss));
  grid_.axis("dp").all_reduce(buffer(sums));
  const auto n = static_cast<double>(std::max<int64_t>(dataset.size(), 1));
  return {.loss = loss[0] / n, .accuracy = counts.accuracy(), .counts = counts};
}

}  // namespace adjoin::train
