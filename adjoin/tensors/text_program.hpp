#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/tensors/program_segment.hpp"
#include "adjoin/texts/text_classification.hpp"

namespace adjoin::train {

/// Puts texts into classes by an exported program, which gets "input_ids" [samples, tokens] and, if it has these inputs,
/// "attention_mask", 1 for tokens and 0 for the padding after them, and "token_type_ids", which are 0. All texts of a batch are as
/// long as its longest, at most --sequence, or as the only length that the program takes.
class TextProgram : public TextClassification {
 public:
  /// Throws: InvalidArgument in one line for a program with other inputs, or with scores of another number of classes
  TextProgram(std::shared_ptr<const ProgramNet> net, const Configuration& configuration, TrainingInput input);
  static std::unique_ptr<Task> make(const Configuration& configuration);
  static std::unique_ptr<Task> open(const Configuration& configuration, const std::filesystem::path& folder);

  std::string name() const override { return kProgramTask; }
  std::optional<int64_t> samples_at_once() const override { return net_->batch(); }
  bool is_computed_together() const override { return true; }
  std::vector<models::Segment> segments() const override;
  std::unique_ptr<Task> laid_out(const Configuration&) const override { return nullptr; }
  MicroBatch micro_batch(data::Part part, std::span<const int64_t> samples, const data::BatchPart& mine,
                         Step step) const override;
  std::string description() const override { return net_->description(); }

 private:
  std::shared_ptr<const ProgramNet> net_;
  int64_t padding_;
};

}  // namespace adjoin::train
