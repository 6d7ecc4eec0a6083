#include "adjoin/train/text_classification.hpp"

#include <ATen/ops/tensor.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "adjoin/base/philox.hpp"
#include "adjoin/nn/cross_entropy.hpp"
#include "adjoin/train/messages.hpp"

namespace adjoin::train {
namespace {

std::vector<int64_t> without_dropped(std::vector<int64_t> ids, double p, int64_t place, const StepContext& context) {
  if (!context.training || p == 0 || ids.size() <= 2) return ids;
  const auto threshold = static_cast<uint32_t>(std::round(p * 65536));
  std::vector<uint16_t> random(ids.size());
  philox_row(random, philox_key(context.seed, "token_dropout"), 0, static_cast<uint32_t>(place), 0,
             static_cast<uint32_t>(context.step));
  std::vector<int64_t> kept{ids.front()};
  for (size_t i = 1; i + 1 < ids.size(); ++i)
    if (random[i] >= threshold) kept.push_back(ids[i]);
  kept.push_back(ids.back());
  return kept;
}

std::string lines_of(const data::WordPiece& tokenizer) {
  std::string lines;
  for (int64_t id = 0; id < tokenizer.size(); ++id) lines += tokenizer.piece(id) + '\n';
  return lines;
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
  return options;
}

TextClassification::TextClassification(const Configuration& configuration, TrainingInput input)
    : configuration_(configuration), input_(std::move(input)) {}

models::Model TextClassification::model(const Grid& grid, const at::TensorOptions& tensor) const {
  models::TextClassifierOptions options = model_options(configuration_, input_.tokenizer.size(), input_.classes.size());
  options.tensor = tensor;
  const models::TextClassifier model(options, grid, "tp");
  return {model.ptr(), model->segments()};
}

MicroBatch TextClassification::micro_batch(data::Part part, std::span<const int64_t> samples,
                                           const data::BatchPart& mine, StepContext context) const {
  const data::TokenStore& store = this->samples(part);
  std::vector<int64_t> ids, lengths, labels;
  for (int64_t place = mine.begin; place < mine.begin + mine.count; ++place) {
    const int64_t sample = samples[static_cast<size_t>(place)];
    const auto kept = without_dropped(store.ids(sample), configuration_.token_dropout, place, context);
    ids.insert(ids.end(), kept.begin(), kept.end());
    lengths.push_back(std::ssize(kept));
    labels.push_back(store.label(sample));
  }
  context.first_sample = mine.begin;
  context.rows = std::make_shared<const Rows>(Rows::balanced(lengths, 1));
  return {.input = at::tensor(ids, at::kLong),
          .target = at::tensor(labels, at::kLong),
          .context = std::move(context),
          .tokens = std::ssize(ids)};
}

at::Tensor TextClassification::loss(const at::Tensor& scores, const MicroBatch& batch) const {
  return nn::cross_entropy(scores, batch.target, /*global_samples=*/1);
}

std::vector<double> TextClassification::tally(const at::Tensor& scores, const MicroBatch& batch) const {
  ClassCounts counts(input_.classes.size());
  counts.add(scores, batch.target);
  if (batch.context.training) return {static_cast<double>(counts.right())};
  return {counts.counts().begin(), counts.counts().end()};
}

std::vector<Measure> TextClassification::measures(std::span<const double> tally, double units) const {
  const double right = tally.size() == 1 ? tally[0] : static_cast<double>(ClassCounts(input_.classes.size(), tally).right());
  return {{.name = "accuracy", .value = units > 0 ? right / units : 0, .is_part = true}};
}

std::string TextClassification::description() const {
  const Configuration& c = configuration_;
  return grouped(c.layers) + (c.layers == 1 ? " block" : " blocks") + " of " + grouped(c.hidden) + " features and " +
         grouped(c.heads) + " heads";
}

std::vector<TaskFile> TextClassification::files() const {
  return {{"vocab.txt", lines_of(input_.tokenizer)},
          {"classes.json", nlohmann::json(input_.classes.names()).dump(2) + "\n"}};
}

}  // namespace adjoin::train
