#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/models/segment.hpp"
#include "adjoin/parallel/distribute.hpp"
#include "adjoin/program/program.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/task.hpp"

namespace adjoin::train {

/// The part of a model that is a program; the full names of its parameters are this and Python's.
inline constexpr const char* kProgramPart = "program";

/// "samples, 3, 4": the sizes of a tensor of samples.
std::string sizes_of_samples(const at::Tensor& tensor);

/// A network that Python exported, as the segments of a model: one for each stage of a pipeline. All ranks of a process share it.
///
/// On a stage's grid its weights are global tensors, cut over tp by cuts that `automatic` finds; a micro-batch of all ranks along replica
/// is one batch of the program. So norms of batches are those of all ranks, and a batch of one size alone may be cut.
class ProgramNet {
 public:
  /// Reads the configuration's program, and finds its cuts.
  /// Throws: InvalidArgument in one line for a file as load_program does; for a program that cannot be evaluated, with weights of
  ///         another type than --precision says, or without the wanted output
  explicit ProgramNet(const Configuration& configuration);
  /// The same network in another layout. Networks that come from one share what they read and measure.
  /// Throws: InvalidArgument as the constructor
  std::shared_ptr<const ProgramNet> laid_out(const Configuration& configuration) const;

  struct Input {
    std::string name;
    program::TensorSpec spec;
  };
  /// What it takes.
  const std::vector<Input>& inputs() const { return inputs_; }
  /// What the file declares of the output that is trained: that named "logits", or with --loss none "loss", else the first.
  const program::TensorSpec& output() const { return output_; }
  /// The only number of samples that it takes at once, if its inputs were exported so.
  std::optional<int64_t> batch() const;
  /// How many modules its lists of modules have, such as blocks; without any, its number of operators.
  int64_t most_stages() const;
  const std::string& path() const { return net_->path(); }
  /// "net.pt2", with how many of its weights are cut.
  std::string description() const;

  /// Throws: InvalidArgument that begins with `where` for a tensor, whose dim 0 is samples, that an input does not take
  static void check(const Input& input, const at::Tensor& given, const std::string& where);

  /// What the program gets of a micro-batch's input, in the order of inputs().
  using Unpack = std::function<std::vector<at::Tensor>(const at::Tensor& input)>;
  /// What the loss gets of the program's output of a micro-batch.
  using Pack = std::function<at::Tensor(const at::Tensor& output, const at::Tensor& input)>;
  /// Its segments for so many stages, cut as program::stages does. The output of the last is that of this rank's samples; of an
  /// output without samples, such as a loss, it is the whole, which each rank along replica uses for its own part.
  /// Throws: InvalidArgument where it cannot be cut into so many, or --recompute names nothing in it
  /// Cost:   reading the file again on each rank; when so many stages are asked for at first, three forward passes on the first rank
  ///         of `world`, whose stages all ranks have
  std::vector<models::Segment> segments(int stages, const Communicator& world, Unpack unpack, Pack pack = {}) const;

 private:
  class Ranks;
  struct Known;
  void lay_out();
  parallel::Cuts found_cuts() const;
  std::vector<int64_t> borders(int stages, const Communicator& world) const;
  std::shared_ptr<torch::nn::Module> made(Ranks& ranks, const std::vector<std::string>& weights, const Grid& stage,
                                          const at::TensorOptions& tensor) const;
  std::vector<at::Tensor> example() const;
  int64_t samples_at_once() const;

  Configuration configuration_;
  std::shared_ptr<program::Program> net_;  // whose weights stay as the file has them
  std::vector<Input> inputs_;
  std::string output_name_;
  program::TensorSpec output_;
  parallel::Cuts cuts_;
  std::shared_ptr<Known> known_;
};

/// What tasks whose model is a program have in common.
template <class Base>
class OfProgram : public Base {
 public:
  template <class... Arguments>
  explicit OfProgram(std::shared_ptr<const ProgramNet> net, Arguments&&... arguments)
      : Base(std::forward<Arguments>(arguments)...), net_(std::move(net)) {}
  std::string name() const override { return kProgramTask; }
  std::optional<int64_t> samples_at_once() const override { return net_->batch(); }
  bool is_computed_together() const override { return true; }
  std::vector<models::Segment> segments() const override { return this->segments_for(1, Communicator()); }
  int64_t most_stages() const override { return net_->most_stages(); }
  std::string description() const override { return net_->description(); }

 protected:
  std::shared_ptr<const ProgramNet> net_;
};

}  // namespace adjoin::train
