#pragma once

#include <filesystem>
#include <vector>

#include "adjoin/data/token_store.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/task.hpp"
#include "adjoin/texts/reviews_input.hpp"

namespace adjoin::train {

/// Puts texts into classes.
class TextClassification : public Task {
 public:
  TextClassification(const Configuration& configuration, TrainingInput input);
  static std::unique_ptr<Task> make(const Configuration& configuration);
  static std::unique_ptr<Task> open(const Configuration& configuration, const std::filesystem::path& folder);

  std::string name() const override { return ""; }
  int64_t size(data::Part part) const override { return samples(part).size(); }
  std::vector<int64_t> lengths(data::Part part) const override { return samples(part).lengths(); }
  std::vector<models::Segment> segments() const override;
  std::unique_ptr<Task> laid_out(const Configuration& configuration) const override;
  /// In training each token except the first and the last ([CLS] and [SEP]) is dropped with the configuration's probability.
  /// Which ones depends on seed, step, the sample's place in the global batch and the token's place in the text.
  MicroBatch micro_batch(data::Part part, std::span<const int64_t> samples, const data::BatchPart& mine,
                         Step step) const override;
  /// In training with class weights the mean is weighted, as by torch.nn.CrossEntropyLoss: divided by the weights of the
  /// global batch. In an evaluation all samples weigh equally.
  at::Tensor loss(const at::Tensor& scores, const MicroBatch& batch, const Grid& grid) const override;
  /// In training only the right answers, else ClassCounts.
  std::vector<double> tally(const at::Tensor& scores, const MicroBatch& batch) const override;
  std::vector<Measure> measures(double loss, std::span<const double> tally, double samples) const override;
  std::string description() const override;
  /// The classifier's last layer, if the classes differ.
  std::vector<std::string> other_parameters(const Task& beginning) const override;
  std::vector<TaskFile> files() const override;

  const data::WordPiece& tokenizer() const { return input_.tokenizer; }

  /// Column names default to those of the training run.
  void read_test(const TextSource& source) override;
  void take_texts(std::span<const std::string> texts) override;
  std::optional<CutText> cut_of(int64_t text) const override;
  /// The likeliest class, and all classes. Throws: Error where the scores are not finite
  std::vector<Prediction> predictions(const at::Tensor& scores, const MicroBatch& batch,
                                      const Grid& grid) const override;
  /// F1 of each class, their mean, and the confusion matrix.
  std::string report(std::span<const double> tally, size_t columns) const override;
  nlohmann::ordered_json details(std::span<const double> tally) const override;

 protected:
  const TrainingInput& input() const { return input_; }

 private:
  const data::TokenStore& samples(data::Part part) const {
    return part == data::Part::train ? input_.train : input_.test;
  }

  Configuration configuration_;
  TrainingInput input_;
  std::vector<double> weights_;       // of the classes, in training; empty: all weigh equally
  std::vector<int64_t> text_tokens_;  // of each text of take_texts, before it was cut
};

}  // namespace adjoin::train
