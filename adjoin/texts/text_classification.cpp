#include "adjoin/texts/text_classification.hpp"

#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/philox.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/nn/cross_entropy.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/task/class_weights.hpp"
#include "adjoin/task/transformer_options.hpp"
#include "adjoin/texts/class_counts.hpp"
#include "adjoin/texts/class_report.hpp"
#include "adjoin/texts/trained_texts.hpp"

namespace adjoin::train {
namespace {

std::vector<int64_t> without_dropped(std::vector<int64_t> ids, double p, int64_t place, const Step& step) {
  if (!step.training || p == 0 || ids.size() <= 2) return ids;
  const auto threshold = static_cast<uint32_t>(std::round(p * 65536));
  std::vector<uint16_t> random(ids.size());
  philox_row(random, philox_key(step.seed, "token_dropout"), 0, static_cast<uint32_t>(place), 0,
             static_cast<uint32_t>(step.number));
  std::vector<int64_t> kept{ids.front()};
  for (size_t i = 1; i + 1 < ids.size(); ++i)
    if (random[i] >= threshold) kept.push_back(ids[i]);
  kept.push_back(ids.back());
  return kept;
}

/// The counts in the tally of an evaluation.
ClassCounts counts_of(const Words& words, std::span<const double> tally) {
  return {words.classes.size(), tally};
}

}  // namespace

TextClassification::TextClassification(const Configuration& configuration, TrainingInput input)
    : configuration_(configuration), input_(std::move(input)) {
  if (input_.train.size() > 0) weights_ = class_weights(configuration, input_.classes, input_.train);
}

std::unique_ptr<Task> TextClassification::make(const Configuration& configuration) {
  return std::make_unique<TextClassification>(configuration, read_training_input(configuration));
}

std::unique_ptr<Task> TextClassification::open(const Configuration& configuration,
                                               const std::filesystem::path& folder) {
  return std::make_unique<TextClassification>(configuration, TrainingInput{read_words(folder), {}, {}});
}

std::vector<models::Segment> TextClassification::segments() const {
  models::TransformerOptions options = transformer_options(configuration_, input_.tokenizer.size());
  options.rows = row_options(configuration_);
  return models::text_classifier(options, classifier_options(configuration_, input_.classes.size()));
}

std::unique_ptr<Task> TextClassification::laid_out(const Configuration& configuration) const {
  return std::make_unique<TextClassification>(configuration, input_);
}

MicroBatch TextClassification::micro_batch(data::Part part, std::span<const int64_t> samples,
                                           const data::BatchPart& mine, Step step) const {
  const data::TokenStore& store = this->samples(part);
  std::vector<int64_t> ids, lengths, labels;
  for (int64_t place = mine.begin; place < mine.begin + mine.count; ++place) {
    const int64_t sample = samples[static_cast<size_t>(place)];
    const auto kept = without_dropped(store.ids(sample), configuration_.token_dropout, place, step);
    ids.insert(ids.end(), kept.begin(), kept.end());
    lengths.push_back(std::ssize(kept));
    labels.push_back(store.label(sample));
  }
  double weight_of_all = 0;  // of the global batch
  for (const int64_t sample : samples)
    if (!weights_.empty()) weight_of_all += weights_[static_cast<size_t>(store.label(sample))];
  step.first_sample = mine.begin;
  return {.input = at::tensor(ids, at::kLong),
          .target = at::tensor(labels, at::kLong),
          .pass = {step, LocalTokenRows(TokenRows::balanced(lengths, 1))},
          .tokens = std::ssize(ids),
          .loss_factor = weight_of_all > 0 ? static_cast<double>(samples.size()) / weight_of_all : 1};
}

at::Tensor TextClassification::loss(const at::Tensor& scores, const MicroBatch& batch, const Grid&) const {
  // The mean of an evaluation is exact: the same on any layout.
  if (!batch.pass.step.training) return nn::cross_entropy(scores.to(at::kDouble), batch.target);
  const at::Tensor weights = weights_.empty() ? at::Tensor() : at::tensor(weights_, at::kDouble);
  // Exact losses are multiplied before they are added.
  if (weights.defined() && FixedOrder::current())
    return nn::cross_entropy(scores, batch.target, weights * batch.loss_factor);
  return nn::cross_entropy(scores, batch.target, weights) * batch.loss_factor;
}

std::vector<double> TextClassification::tally(const at::Tensor& scores, const MicroBatch& batch) const {
  ClassCounts counts(input_.classes.size());
  counts.add(scores, batch.target);
  if (batch.pass.step.training) return {static_cast<double>(counts.right())};
  return {counts.counts().begin(), counts.counts().end()};
}

std::vector<Measure> TextClassification::measures(double, std::span<const double> tally, double samples) const {
  const double right = tally.size() == 1 ? tally[0] : static_cast<double>(counts_of(input_, tally).right());
  return {{.name = "accuracy", .value = samples > 0 ? right / samples : 0, .is_part = true}};
}

std::string TextClassification::description() const {
  const Configuration& c = configuration_;
  return counted(c.layers, "block") + " of " + counted(c.hidden, "feature") + " and " + counted(c.heads, "head");
}

std::vector<std::string> TextClassification::other_parameters(const Task& beginning) const {
  const auto& other = dynamic_cast<const TextClassification&>(beginning);
  if (other.input_.classes.names() == input_.classes.names()) return {};
  return {"classifier.row."};
}

std::vector<TaskFile> TextClassification::files() const {
  std::vector<TaskFile> files = {{input_.tokenizer.file(), input_.tokenizer.content()},
                                 {kClassesFile, nlohmann::json(input_.classes.names()).dump(2) + "\n"}};
  if (!input_.texts_file.empty()) files.push_back({kTextsFile, input_.texts_file});
  return files;
}

void TextClassification::read_test(const TextSource& source) {
  TextSource whole = source;
  if (whole.columns.text.empty()) whole.columns.text = configuration_.text_column;
  if (whole.columns.label.empty()) whole.columns.label = configuration_.label_column;
  input_.test = read_test_input(whole, input_, configuration_.sequence);
}

void TextClassification::take_texts(std::span<const std::string> texts) {
  data::TokenStoreBuilder builder(input_.tokenizer.size());
  text_tokens_.clear();
  for (const std::string& text : texts) {
    text_tokens_.push_back(std::ssize(input_.tokenizer.encode(text)));
    require(text_tokens_.back() > 0, "the text is empty");  // a class for it would say nothing but which is frequent
    builder.add(input_.tokenizer.encode_review(text, configuration_.sequence), /*label=*/0);
  }
  input_.test = builder.finish();
}

std::optional<CutText> TextClassification::cut_of(int64_t text) const {
  const int64_t tokens = text_tokens_.at(static_cast<size_t>(text));
  const int64_t most = configuration_.sequence - 2;  // besides [CLS] and [SEP]
  return tokens <= most ? std::nullopt : std::optional(CutText{.tokens = tokens, .at_once = most});
}

std::vector<Prediction> TextClassification::predictions(const at::Tensor& scores, const MicroBatch&,
                                                        const Grid&) const {
  const auto [probabilities, classes] = at::softmax(scores.to(at::kDouble), -1).sort(-1, /*descending=*/true);
  std::vector<Prediction> predictions;
  for (int64_t i = 0; i < scores.size(0); ++i) {
    Prediction prediction;
    for (int64_t place = 0; place < scores.size(1); ++place)
      prediction.classes.emplace_back(input_.classes.name(classes[i][place].item<int64_t>()),
                                      probabilities[i][place].item<double>());
    std::tie(prediction.label, prediction.value) = prediction.classes.front();
    if (!std::isfinite(prediction.value)) throw Error("the model's scores are not finite");
    predictions.push_back(std::move(prediction));
  }
  return predictions;
}

std::string TextClassification::report(std::span<const double> tally, size_t columns) const {
  return class_report(input_.classes, counts_of(input_, tally), columns);
}

nlohmann::ordered_json TextClassification::details(std::span<const double> tally) const {
  const ClassCounts counts = counts_of(input_, tally);
  nlohmann::ordered_json json = {
      {"classes", input_.classes.names()}, {"f1", nlohmann::json::array()}, {"macro_f1", counts.macro_f1()}};
  for (int64_t c = 0; c < counts.classes(); ++c) json["f1"].push_back(counts.f1(c));
  for (int64_t actual = 0; counts.has_pairs() && actual < counts.classes(); ++actual) {
    nlohmann::ordered_json row;
    for (int64_t taken = 0; taken < counts.classes(); ++taken) row.push_back(counts.pair(actual, taken));
    json["confusion"].push_back(row);
  }
  return json;
}

}  // namespace adjoin::train
