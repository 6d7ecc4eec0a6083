#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/tensors/program_segment.hpp"
#include "adjoin/texts/text_classification.hpp"

namespace adjoin::train {

/// Puts texts into classes by an exported program, which gets "input_ids" [samples, tokens] and, if it has these inputs,
/// "attention_mask", 1 for tokens and 0 for the padding after them, and "token_type_ids", which are 0. All texts of a batch are as
/// long as its longest, at most --sequence, or as the only length that the program takes.
class TextProgram : public OfProgram<TextClassification> {
 public:
  /// Throws: InvalidArgument in one line for a program with other inputs, or with scores of another number of classes
  TextProgram(std::shared_ptr<const ProgramNet> net, const Configuration& configuration, TrainingInput input);
  static std::unique_ptr<Task> make(const Configuration& configuration);
  static std::unique_ptr<Task> open(const Configuration& configuration, const std::filesystem::path& folder);

  std::unique_ptr<Task> laid_out(const Configuration& configuration) const override;
  std::vector<models::Segment> segments_for(int stages, const Communicator& world) const override;
  MicroBatch micro_batch(data::Part part, std::span<const int64_t> samples, const data::BatchPart& mine,
                         Step step) const override;

 private:
  int64_t padding_;
};

}  // namespace adjoin::train
