#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "adjoin/base/not_copied.hpp"
#include "adjoin/comm/communicator.hpp"
#include "adjoin/movement/marks.hpp"
#include "adjoin/parallel/bucket.hpp"

namespace adjoin::parallel {

/// New weights that travel between hosts while their rank goes on. An operation of LibTorch that reads one, or writes to it, waits for
/// it first. They have groups of their own, so that other calls do not wait for them.
class ArrivingWeights final : public MarkedTensors, NotCopied {
 public:
  /// Called by all ranks of the messages' copies, with messages in one order. Without `marks` nothing waits but `finish`.
  ArrivingWeights(const std::vector<at::Tensor>& weights, const std::vector<const Bucket*>& messages, bool marks);

  /// Begins to gather `mine` into `packed`, the memory of a message of `weights` (Bucket).
  void begin(const Bucket& message, const at::Tensor& mine, const at::Tensor& packed,
             const std::vector<at::Tensor>& weights);
  /// Waits for all.
  void finish();

  void begin_read(size_t message) override { finish(message); }
  void write(size_t message, const std::string&) override { finish(message); }

 private:
  struct Message {
    const Bucket* bucket;
    Communicator group;
    at::Tensor mine{}, packed{};
    std::vector<at::Tensor> weights{};
    std::shared_ptr<Pending> runs{};  // after what it reads and writes
  };
  void finish(size_t message);

  std::vector<Message> messages_;
  std::vector<std::unique_ptr<Mark>> marks_;
};

}  // namespace adjoin::parallel
