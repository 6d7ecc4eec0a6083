#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/task/task.hpp"
#include "adjoin/tensors/program_segment.hpp"
#include "adjoin/tensors/tensor_set.hpp"

namespace adjoin::train {

/// Trains an exported program on tensors. Each input of the program takes the tensor of its name, and the first also "x"; the target
/// is "y". A program that returns its loss takes "y" as its last input.
class TensorTask : public OfProgram<Task> {
 public:
  TensorTask(std::shared_ptr<const ProgramNet> net, const Configuration& configuration)
      : OfProgram(std::move(net)), configuration_(configuration) {}
  /// Throws: InvalidArgument in one line for tensors whose names, shapes or types the program does not take
  static std::unique_ptr<Task> make(const Configuration& configuration);
  static std::unique_ptr<Task> open(const Configuration& configuration, const std::filesystem::path& folder);

  int64_t size(data::Part part) const override;
  std::unique_ptr<Task> laid_out(const Configuration& configuration) const override;
  std::vector<models::Segment> segments_for(int stages, const Communicator& world) const override;
  MicroBatch micro_batch(data::Part part, std::span<const int64_t> samples, const data::BatchPart& mine,
                         Step step) const override;
  at::Tensor loss(const at::Tensor& output, const MicroBatch& batch, const Grid& grid) const override;
  std::vector<double> tally(const at::Tensor& output, const MicroBatch& batch) const override;
  /// The accuracy, or R2: 1 less the sum of squared errors divided by that of the targets' distances from their mean, over all
  /// numbers of all samples.
  std::vector<Measure> measures(double loss, std::span<const double> tally, double samples) const override;

  void read_test(const TextSource& source) override;
  /// The test part becomes these tensors, of which only the inputs are read.
  /// Throws: InvalidArgument as make, and where the program returns nothing but its loss
  void take(const TensorSet& inputs);

 private:
  bool has_target() const { return configuration_.loss != TensorLoss::none; }
  /// The inputs of the program, and after them the target if it `has_target`.
  std::vector<at::Tensor> in_order(const TensorSet& set, bool has_target) const;
  void check_target(const at::Tensor& y, const std::string& place) const;

  Configuration configuration_;
  std::map<data::Part, std::vector<at::Tensor>> parts_;  // as in_order
};

/// The tensors that an evaluation of a run measures: those of `test`, or of `given.data`, which are split as in the run if they are
/// those of the run; else those of the run.
TextSource measured_tensors(const TextSource& given, const std::string& test, const Configuration& run);

}  // namespace adjoin::train
