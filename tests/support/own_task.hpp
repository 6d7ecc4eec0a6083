#pragma once

#include <ATen/ops/mse_loss.h>
#include <ATen/ops/tensor.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <string>
#include <vector>

#include "adjoin/task/task.hpp"

namespace adjoin::test {

/// The squares of 40 numbers, by plain modules that draw their weights as torch::nn does: an input, two equal blocks, an output.
/// Its tensors are float32, and each sample is one row.
class PlainTask : public train::Task {
 public:
  /// What the blocks say about the features of their output, which has 8.
  explicit PlainTask(int64_t said = 8) : said_(said) {}

  std::string name() const override { return "squares"; }
  int64_t size(data::Part part) const override { return part == data::Part::train ? 40 : 10; }
  std::vector<models::Segment> segments() const override {
    const auto linear = [this](const std::string& name, int64_t in, int64_t out) {
      const auto make = [=](const Grid&, const at::TensorOptions& tensor) {
        torch::nn::Linear layer(in, out);
        layer->to(tensor.dtype().toScalarType());
        return layer.ptr();
      };
      models::Segment segment = models::segment<torch::nn::LinearImpl>(
          name, make, [](auto& layer, const at::Tensor& x, const ForwardPass&) { return layer.forward(x).tanh(); });
      segment.output_shape = [said = said_](const Grid&, const LocalTokenRows& rows) {
        return std::vector<int64_t>{rows.size(), said};
      };
      return segment;
    };
    return {linear("in", 1, 8), linear("block0", 8, 8), linear("block1", 8, 8), linear("out", 8, 1)};
  }
  train::MicroBatch micro_batch(data::Part, std::span<const int64_t> samples, const data::BatchPart& mine,
                                Step step) const override {
    std::vector<float> x;
    for (const int64_t i : samples.subspan(static_cast<size_t>(mine.begin), static_cast<size_t>(mine.count)))
      x.push_back(static_cast<float>(i) / 20 - 1);
    const at::Tensor input = at::tensor(x).unsqueeze(1);
    const LocalTokenRows rows(TokenRows::balanced(std::vector<int64_t>(x.size(), 1), 1));
    step.first_sample = mine.begin;
    return {input, input.square(), {step, rows}, mine.count};
  }
  at::Tensor loss(const at::Tensor& output, const train::MicroBatch& batch, const Grid&) const override {
    return at::mse_loss(output, batch.target, at::Reduction::Sum);
  }

 private:
  int64_t said_;
};

inline std::unique_ptr<train::Task> plain_task(const train::Configuration&) {
  return std::make_unique<PlainTask>();
}

/// A training of it that takes a moment: six steps an epoch.
inline train::Configuration of_plain_task(const std::string& out, int64_t epochs = 2) {
  train::Configuration c;
  c.batch = 7, c.epochs = epochs, c.lr = 1e-2, c.threads_per_rank = 1;
  c.out = out;
  return c;
}

}  // namespace adjoin::test
