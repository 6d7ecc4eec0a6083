#pragma once

#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "adjoin/models/model.hpp"
#include "adjoin/pipeline/schedule.hpp"
#include "adjoin/plan/segment_needs.hpp"

namespace adjoin::plan {

/// The needs of a stage's segments for one micro-batch, and the place of the first one among the rank's segments.
struct StageNeeds {
  size_t first = 0;
  std::vector<const SegmentNeeds*> segments = {};
};

/// Bytes of each parameter's gradient after each micro-batch, in the form in which a step keeps it; after all others as after the
/// last one that is given.
using GradientBytes = std::map<const c10::TensorImpl*, std::vector<int64_t>>;

/// Finds the most bytes in use at once while micro-batches go forward and back by a schedule. Activations are in use from
/// forward until backward has passed their segment, and gradients of weights from then on.
class MemoryWalk {
 public:
  /// `before`: bytes in use at the beginning.
  MemoryWalk(const models::Model& model, const GradientBytes& gradients, int64_t before)
      : model_(model), gradients_(gradients), live_(before), highest_(before) {}

  /// A message from this rank, which uses memory here until its receiver takes it.
  void send(int64_t bytes, double until) {
    sent_.emplace_back(until, bytes);
    live_ += bytes;
    highest_ = std::max(highest_, live_);
  }
  /// A message to this rank, which gets memory for it before it knows which of its own were taken meanwhile.
  void receive(int64_t bytes) { highest_ = std::max(highest_, live_ + bytes); }
  void run(const pipeline::Action& of, const StageNeeds& stage, double now) {
    const pipeline::Kind action = of.kind;
    std::erase_if(sent_, [&](const auto& message) {
      const bool is_taken = message.first < now;  // at the same time its receiver has only begun to
      if (is_taken) live_ -= message.second;
      return is_taken;
    });
    if (action == pipeline::Kind::forward) return forward(stage);
    for (size_t i = stage.segments.size(); i-- > 0;) {
      const SegmentNeeds& needs = *stage.segments[i];
      const bool again = has_gradients(stage.first + i);
      if (action != pipeline::Kind::weight) {
        const int64_t ahead = i > 0 ? stage.segments[i - 1]->ahead : 0;
        highest_ = std::max(highest_, live_ + ahead + (again ? needs.backward_again : needs.backward));
        keep(needs.retained - needs.kept);
      } else {
        highest_ = std::max(highest_, live_ + (again ? needs.weight_gradients_again : needs.weight_gradients));
        keep(-needs.retained);
      }
      if (action != pipeline::Kind::input) count_gradients(stage.first + i, static_cast<size_t>(of.micro_batch));
    }
    if (action == pipeline::Kind::backward)
      for (const SegmentNeeds* needs : stage.segments) keep(-needs->retained);
  }
  int64_t highest() const { return highest_; }
  int64_t most_kept() const { return most_kept_; }

 private:
  void forward(const StageNeeds& stage) {
    for (size_t i = 0; i < stage.segments.size(); ++i) {
      const int64_t ahead = i + 1 < stage.segments.size() ? stage.segments[i + 1]->ahead : 0;
      highest_ = std::max(highest_, live_ + ahead + stage.segments[i]->forward);
      keep(stage.segments[i]->kept);
    }
  }
  void keep(int64_t bytes) {
    live_ += bytes;
    kept_ += bytes;
    most_kept_ = std::max(most_kept_, kept_);
  }
  bool has_gradients(size_t segment) const {
    for (const auto& module : model_->modules(segment).of_parts)
      for (const at::Tensor& weight : module->parameters())
        if (!counted_.contains(weight.unsafeGetTensorImpl())) return false;
    return true;
  }
  void count_gradients(size_t segment, size_t micro_batch) {
    for (const auto& module : model_->modules(segment).of_parts)
      for (const at::Tensor& weight : module->parameters()) {
        const std::vector<int64_t>& bytes = gradients_.at(weight.unsafeGetTensorImpl());
        const int64_t now = bytes[std::min(micro_batch, bytes.size() - 1)];
        live_ += now - std::exchange(counted_[weight.unsafeGetTensorImpl()], now);
      }
  }

  const models::Model& model_;
  const GradientBytes& gradients_;
  int64_t live_, highest_, kept_ = 0, most_kept_ = 0;
  std::map<const c10::TensorImpl*, int64_t> counted_;  // the bytes of the gradients that are in use
  std::vector<std::pair<double, int64_t>> sent_{};     // time until which the message is here, and its bytes
};

}  // namespace adjoin::plan
