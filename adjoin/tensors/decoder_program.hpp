#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "adjoin/tensors/program_segment.hpp"
#include "adjoin/texts/language_modelling.hpp"

namespace adjoin::train {

/// Predicts the next token by an exported program, which gets texts as TextProgram and gives scores [texts, tokens, words]. Each
/// document, or a sequence's part of it, is a text, padded to --sequence tokens.
class DecoderProgram : public LanguageModelling {
 public:
  /// Throws: InvalidArgument in one line for a program with other inputs, or that scores fewer words than the vocabulary has
  DecoderProgram(std::shared_ptr<const ProgramNet> net, const Configuration& configuration, LanguageInput input);
  static std::unique_ptr<Task> make(const Configuration& configuration);
  static std::unique_ptr<Task> open(const Configuration& configuration, const std::filesystem::path& folder);

  std::string name() const override { return kProgramTask; }
  bool is_computed_together() const override { return true; }
  std::vector<models::Segment> segments() const override;
  std::unique_ptr<Task> laid_out(const Configuration&) const override { return nullptr; }
  MicroBatch micro_batch(data::Part part, std::span<const int64_t> samples, const data::BatchPart& mine,
                         Step step) const override;
  at::Tensor loss(const at::Tensor& scores, const MicroBatch& batch, const Grid& grid) const override;
  std::string description() const override { return net_->description(); }

  /// The input of one text, for a model that writes.
  at::Tensor input_of(const std::vector<int64_t>& tokens) const;

 private:
  std::shared_ptr<const ProgramNet> net_;
  int64_t sequence_;
};

}  // namespace adjoin::train
