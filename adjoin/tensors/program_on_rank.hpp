#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/models/segment.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/distribute.hpp"
#include "adjoin/parallel/pipelined.hpp"
#include "adjoin/program/program.hpp"

namespace adjoin::train {

/// The pieces of a program's weights under Python's names. They have their values already: none is initialized.
class ProgramPieces : public nn::ShardedModule {
 public:
  void add(const std::string& name, const nn::Parameter& parameter);

 private:
  std::map<std::string, std::shared_ptr<ProgramPieces>> children_;
};

/// A rank's program and its stages, which the parts of its model share.
class ProgramOnRank {
 public:
  /// A part of the weights on the ranks that hold it: `place` are these, which `grid` has as a world of their own.
  class Part : public ProgramPieces {
   public:
    Part(std::shared_ptr<ProgramOnRank> rank, const std::vector<parallel::NamedTensor>& tensors, const Grid& place,
         const parallel::Cuts& cuts, bool shards);
    void begin(const Step& step, int64_t drawn) { model_->begin(step, drawn); }
    void release_whole() const {
      if (model_) model_->release_whole();
    }
    ProgramOnRank& rank() const { return *rank_; }

   private:
    const std::shared_ptr<ProgramOnRank> rank_;
    std::optional<parallel::Distributed> model_;
  };

  std::shared_ptr<program::Program> net;
  std::vector<parallel::Child> stages;
  Grid grid;              ///< the ranks that have the same stages, as a world of their own
  bool is_plain = false;  ///< runs as it is: on one rank, and draws by LibTorch's generator
  bool is_seeded = false;

  /// What a stage gives of global inputs.
  parallel::Bundle run(size_t stage, const models::Modules& modules, const parallel::Bundle& received,
                       const std::vector<at::Tensor>& inputs, const Step& step, const std::string& output);

 private:
  at::Tensor run_plain(const std::vector<at::Tensor>& inputs, const Step& step, const std::string& output);
};

}  // namespace adjoin::train
