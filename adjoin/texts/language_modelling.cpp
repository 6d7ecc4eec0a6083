#include "adjoin/texts/language_modelling.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>

#include "adjoin/base/error.hpp"
#include "adjoin/data/token_folder.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/nn/cross_entropy.hpp"
#include "adjoin/nn/fixed/layers.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/store/read_text.hpp"
#include "adjoin/task/transformer_options.hpp"
#include "adjoin/texts/trained_texts.hpp"

namespace adjoin::train {
namespace {

double bits_per_byte(double nats, double bytes) {
  return bytes > 0 ? nats / std::log(2.0) / bytes : 0;
}

/// The number of bytes of the targets of rows begin to end.
double bytes_of_targets(const data::TextVocabulary& vocabulary, const at::Tensor& targets, int64_t begin, int64_t end) {
  double bytes = 0;
  const auto* target = targets.const_data_ptr<int64_t>();
  for (int64_t row = begin; row < end; ++row) bytes += static_cast<double>(vocabulary.bytes_of(target[row]).size());
  return bytes;
}

/// All rows of one worker, which may lie in blocks, sample by sample.
at::Tensor sample_by_sample(const at::Tensor& x, const TokenRows& rows) {
  return join_blocks(x, Communicator(), rows.split());
}

}  // namespace

LanguageModelling::LanguageModelling(const Configuration& configuration, LanguageInput input)
    : configuration_(configuration),
      vocabulary_(std::move(input.vocabulary)),
      texts_file_(std::move(input.texts_file)),
      test_samples_(configuration.samples) {
  if (input.train.tokens.size() == 0) return;  // a trained model is used without data
  train_.emplace(std::move(input.train), configuration.sequence, data::Part::train);
  test_.emplace(std::move(input.test), configuration.sequence, data::Part::test);
}

std::unique_ptr<Task> LanguageModelling::make(const Configuration& configuration) {
  return std::make_unique<LanguageModelling>(configuration, read_language_input(configuration));
}

std::unique_ptr<Task> LanguageModelling::open(const Configuration& configuration, const std::filesystem::path& folder) {
  return std::make_unique<LanguageModelling>(
      configuration, LanguageInput{read_vocabulary(folder), {}, {}, text_or_nothing(folder / kTextsFile)});
}

std::vector<models::Segment> LanguageModelling::segments() const {
  models::TransformerOptions options = transformer_options(configuration_, vocabulary_->size());
  options.rows = row_options(configuration_);
  return models::decoder(options, configuration_.tied_scores);
}

std::unique_ptr<Task> LanguageModelling::laid_out(const Configuration& configuration) const {
  auto task = std::make_unique<LanguageModelling>(configuration, words());
  task->share(*this);
  return task;
}

void LanguageModelling::share(const LanguageModelling& other) {
  train_ = other.train_;
  test_ = other.test_;
  texts_ = other.texts_;
}

int64_t LanguageModelling::size(data::Part part) const {
  const auto used = [](const auto& sequences, int64_t most) {
    const int64_t all = sequences ? sequences->size() : 0;
    return most == 0 ? all : std::min(all, most);
  };
  if (part == data::Part::train) return used(train_, configuration_.samples);
  return texts_.empty() ? used(test_, test_samples_) : std::ssize(texts_);
}

data::Sequence LanguageModelling::sequence(data::Part part, int64_t sample) const {
  ++read_;
  if (part == data::Part::train) return (*train_)[sample];
  return texts_.empty() ? (*test_)[sample] : texts_[static_cast<size_t>(sample)];
}

std::shared_ptr<const LanguageModelling::BatchCounts> LanguageModelling::counts(
    data::Part part, std::span<const int64_t> samples) const {
  const std::lock_guard lock(counting_);
  if (counted_ && counted_->part == part && std::ranges::equal(counted_->samples, samples)) return counted_;
  BatchCounts counts{.part = part, .samples = {samples.begin(), samples.end()}, .pieces = {0}, .tokens = {0}};
  for (const int64_t sample : samples) {
    const data::Sequence read = sequence(part, sample);
    counts.pieces.push_back(counts.pieces.back() + std::ssize(read.lengths));
    counts.tokens.push_back(counts.tokens.back() + std::ssize(read.ids));
  }
  counted_ = std::make_shared<const BatchCounts>(std::move(counts));
  return counted_;
}

MicroBatch LanguageModelling::micro_batch(data::Part part, std::span<const int64_t> samples,
                                          const data::BatchPart& mine, Step step) const {
  std::vector<int64_t> ids, targets, lengths, pieces;
  if (mine.begin > 0)  // masks are numbered by the pieces of the global batch
    step.first_sample += counts(part, samples)->pieces[static_cast<size_t>(mine.begin)];
  for (const int64_t sample : samples.subspan(static_cast<size_t>(mine.begin), static_cast<size_t>(mine.count))) {
    const data::Sequence read = sequence(part, sample);
    ids.insert(ids.end(), read.ids.begin(), read.ids.end());
    targets.insert(targets.end(), read.targets.begin(), read.targets.end());
    lengths.insert(lengths.end(), read.lengths.begin(), read.lengths.end());
    pieces.push_back(std::ssize(read.lengths));
  }
  return {.input = at::tensor(ids, at::kLong),
          .target = at::tensor(targets, at::kLong),
          .pass = {step, LocalTokenRows(TokenRows::balanced(lengths, 1))},
          .tokens = std::ssize(ids),
          .pieces = std::move(pieces)};
}

double LanguageModelling::loss_denominator(data::Part part, std::span<const int64_t> samples) const {
  return static_cast<double>(counts(part, samples)->tokens.back());
}

at::Tensor LanguageModelling::loss(const at::Tensor& scores, const MicroBatch& batch, const Grid& grid) const {
  const Communicator& tp = grid.axis("tp");
  const int64_t words = configuration_.words == 0 ? vocabulary_->size() : configuration_.words;
  return nn::vocabulary_parallel_cross_entropy(scores, batch.target.to(scores.device()), tp,
                                               nn::fixed::cut_features(words, tp.size(), 0));
}

std::vector<double> LanguageModelling::tally(const at::Tensor&, const MicroBatch& batch) const {
  if (batch.pass.step.training) return {};
  return {bytes_of_targets(*vocabulary_, batch.target, 0, batch.target.numel())};
}

std::vector<Measure> LanguageModelling::measures(double loss, std::span<const double> tally, double tokens) const {
  std::vector<Measure> measures{{.name = "perplexity", .value = std::exp(loss)}};
  if (!tally.empty()) measures.push_back({.name = "bits_per_byte", .value = bits_per_byte(loss * tokens, tally[0])});
  return measures;
}

std::string LanguageModelling::description() const {
  const Configuration& c = configuration_;
  return counted(c.layers, "block") + " of " + counted(c.hidden, "feature") + " and " + counted(c.heads, "head") +
         ", context " + grouped(context_of(c));
}

std::vector<TaskFile> LanguageModelling::files() const {
  std::vector<TaskFile> files = {{data::kVocabularyFile, vocabulary_->content()}};
  if (!texts_file_.empty()) files.push_back({kTextsFile, texts_file_});
  return files;
}

void LanguageModelling::read_test(const TextSource& source) {
  TextSource whole = source;
  if (whole.columns.text.empty()) whole.columns.text = configuration_.text_column;
  require(whole.columns.label.empty(), "--label-column is for a classifier, and the model is a decoder");
  test_samples_ = whole.samples;
  counted_.reset();
  test_.emplace(read_language_test(whole, *vocabulary_), configuration_.sequence, data::Part::test);
}

void LanguageModelling::take_texts(std::span<const std::string> texts) {
  texts_.clear();
  counted_.reset();
  for (const std::string& text : texts) {
    std::vector<int64_t> ids = vocabulary_->beginning();
    const size_t before = ids.size();
    vocabulary_->encode(text, ids);
    require(ids.size() > before, "the text is empty");
    require(ids.size() > 1,
            "the text is a single token; expected at least 2, because each is scored after those before it");
    ids.push_back(vocabulary_->end_of_document());
    data::Sequence read{.ids = {ids.begin(), ids.end() - 1}, .targets = {ids.begin() + 1, ids.end()}, .lengths = {}};
    for (auto rest = std::ssize(read.ids); rest > 0; rest -= read.lengths.back())  // as sequences are cut
      read.lengths.push_back(std::min(rest, configuration_.sequence));
    texts_.push_back(std::move(read));
  }
}

std::optional<CutText> LanguageModelling::cut_of(int64_t text) const {
  const data::Sequence& read = texts_.at(static_cast<size_t>(text));
  if (read.lengths.size() < 2) return std::nullopt;
  return CutText{.tokens = std::ssize(read.ids), .at_once = configuration_.sequence, .goes_on = true};
}

std::vector<Prediction> LanguageModelling::predictions(const at::Tensor& scores, const MicroBatch& batch,
                                                       const Grid& grid) const {
  // A text ends with an end of document; the model may have read it in several pieces.
  const at::Tensor exact = sample_by_sample(scores, batch.pass.rows.all()).to(at::kDouble);
  const at::Tensor targets = sample_by_sample(batch.target, batch.pass.rows.all());
  std::vector<Prediction> predictions;
  const auto* target = targets.const_data_ptr<int64_t>();
  for (int64_t begin = 0, row = 0; row < targets.numel(); ++row) {
    if (target[row] != vocabulary_->end_of_document()) continue;
    MicroBatch text;
    text.target = targets.slice(0, begin, row + 1);
    const double bits = bits_per_byte(loss(exact.slice(0, begin, row + 1), text, grid).item<double>(),
                                      bytes_of_targets(*vocabulary_, targets, begin, row + 1));
    if (!std::isfinite(bits)) throw Error("the model's scores are not finite");
    predictions.push_back({.what = "bits_per_byte", .value = bits});
    begin = row + 1;
  }
  return predictions;
}

}  // namespace adjoin::train
