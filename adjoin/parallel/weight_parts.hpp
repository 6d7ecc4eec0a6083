#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/movement/marks.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/bucket.hpp"
#include "adjoin/parallel/weight_units.hpp"

namespace adjoin::parallel {

/// This rank's shards of weights that all ranks of a group have whole: an optimizer updates them in the weights' own memory.
class WeightParts : public MarkedTensors, NotCopied {
 public:
  /// Of weights with memory of their own. `buckets` are those that are gathered together after an update.
  WeightParts(std::vector<nn::Parameter> whole, const Members& buckets, Communicator group, std::string who);

  /// With the layouts of shards. Only `update` may change them.
  const std::vector<nn::Parameter>& parts() const { return parts_; }
  /// A collective: `work` may change the parts; then all ranks get what it has changed.
  void update(const std::function<void()>& work);
  /// Throws: InvalidArgument for a weight that was given other memory
  void check_memory() const;

  void write(size_t part, const std::string& operation) override;

 private:
  std::vector<nn::Parameter> whole_, parts_;
  std::vector<Bucket> buckets_;
  std::vector<std::unique_ptr<Mark>> marks_;
  Communicator group_;
  std::string who_;
  bool may_change_ = false;
};

}  // namespace adjoin::parallel
