#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "adjoin/data/sequences.hpp"
#include "adjoin/models/decoder.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/task.hpp"
#include "adjoin/texts/language_input.hpp"

namespace adjoin::train {

/// Predicts the next token. A sample is a sequence of tokens; the loss is a mean over all tokens.
class LanguageModelling : public Task {
 public:
  LanguageModelling(const Configuration& configuration, LanguageInput input);
  static std::unique_ptr<Task> make(const Configuration& configuration);
  static std::unique_ptr<Task> open(const Configuration& configuration, const std::filesystem::path& folder);

  std::string name() const override { return ""; }
  int64_t size(data::Part part) const override;
  std::vector<models::Segment> segments() const override;
  std::unique_ptr<Task> laid_out(const Configuration& configuration) const override;
  TokenRows split_rows(const std::vector<int64_t>& lengths, int ranks) const override {
    return TokenRows::zigzag(lengths, ranks);
  }
  /// Each document, or a sequence's part of it, is a separate sample: documents do not see each other.
  MicroBatch micro_batch(data::Part part, std::span<const int64_t> samples, const data::BatchPart& mine,
                         Step step) const override;
  /// The number of tokens to predict.
  bool output_is_per_token() const override { return true; }
  double loss_denominator(data::Part part, std::span<const int64_t> samples) const override;
  at::Tensor loss(const at::Tensor& scores, const MicroBatch& batch, const Grid& grid) const override;
  /// In an evaluation the number of bytes to predict.
  std::vector<double> tally(const at::Tensor& scores, const MicroBatch& batch) const override;
  /// Perplexity, and in an evaluation bits per byte; the ends of documents cost bits and are not counted as bytes.
  std::vector<Measure> measures(double loss, std::span<const double> tally, double tokens) const override;
  std::string description() const override;
  std::vector<TaskFile> files() const override;

  void read_test(const TextSource& source) override;
  /// Each text is a sample; one of more tokens than a training sequence is read in pieces of that length, which do not see each
  /// other.
  void take_texts(std::span<const std::string> texts) override;
  std::optional<CutText> cut_of(int64_t text) const override;
  /// Bits per byte of each text, including its end.
  std::vector<Prediction> predictions(const at::Tensor& scores, const MicroBatch& batch,
                                      const Grid& grid) const override;

  const data::TextVocabulary& vocabulary() const { return *vocabulary_; }
  /// How many sequences have been read from the data.
  int64_t sequences_read() const { return read_; }

 protected:
  /// What a model needs without the data.
  LanguageInput words() const { return {vocabulary_, {}, {}, texts_file_}; }
  /// Uses the data of another such task.
  void share(const LanguageModelling& other);

 private:
  /// Counts before each place in a batch of sequences; the last entries count the whole batch.
  struct BatchCounts {
    data::Part part{};
    std::vector<int64_t> samples, pieces, tokens;
  };

  data::Sequence sequence(data::Part part, int64_t sample) const;
  /// Read once for all ranks and micro-batches of a batch.
  std::shared_ptr<const BatchCounts> counts(data::Part part, std::span<const int64_t> samples) const;

  Configuration configuration_;
  std::shared_ptr<const data::TextVocabulary> vocabulary_;
  std::string texts_file_;
  std::optional<data::Sequences> train_, test_;
  int64_t test_samples_;               // the most that are used; 0: all
  std::vector<data::Sequence> texts_;  // instead of the test part
  mutable std::atomic<int64_t> read_ = 0;
  mutable std::mutex counting_;
  mutable std::shared_ptr<const BatchCounts> counted_;  // of the last batch
};

}  // namespace adjoin::train
