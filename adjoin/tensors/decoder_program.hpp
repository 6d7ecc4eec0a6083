#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "adjoin/tensors/program_segment.hpp"
#include "adjoin/texts/language_modelling.hpp"

namespace adjoin::train {

/// Predicts the next token by an exported program, which gets texts as TextProgram and gives scores [texts, tokens, words]. Each
/// document, or a sequence's part of it, is a text, padded to --sequence tokens.
class DecoderProgram : public OfProgram<LanguageModelling> {
 public:
  /// Throws: InvalidArgument in one line for a program with other inputs, or that scores fewer words than the vocabulary has
  DecoderProgram(std::shared_ptr<const ProgramNet> net, const Configuration& configuration, LanguageInput input);
  static std::unique_ptr<Task> make(const Configuration& configuration);
  static std::unique_ptr<Task> open(const Configuration& configuration, const std::filesystem::path& folder);

  std::unique_ptr<Task> laid_out(const Configuration& configuration) const override;
  std::vector<models::Segment> segments_for(int stages, const Communicator& world) const override;
  MicroBatch micro_batch(data::Part part, std::span<const int64_t> samples, const data::BatchPart& mine,
                         Step step) const override;
  at::Tensor loss(const at::Tensor& scores, const MicroBatch& batch, const Grid& grid) const override;

  /// The input of one text, for a model that writes.
  at::Tensor input_of(const std::vector<int64_t>& tokens) const;

 private:
  int64_t sequence_;
};

}  // namespace adjoin::train
