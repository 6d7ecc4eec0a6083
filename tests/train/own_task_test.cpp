// A task of one's own, whose model is a plain module of torch::nn that knows nothing of workers.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/seeded.hpp"
#include "adjoin/train/commands.hpp"
#include "adjoin/train/predictor.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::train {
namespace {

/// The square of a number, from 40 examples.
class Square : public Task {
 public:
  int64_t size(data::Part part) const override {
    return part == data::Part::train ? 40 : texts_.empty() ? 10 : std::ssize(texts_);
  }
  std::vector<models::Segment> segments() const override {
    const auto make = [](const Grid&, const at::TensorOptions& tensor) {
      auto net = nn::seeded(3, [] {
        return torch::nn::Sequential(torch::nn::Linear(1, 16), torch::nn::Tanh(), torch::nn::Linear(16, 1));
      });
      net->to(tensor.dtype().toScalarType());
      return net.ptr();
    };
    return {models::segment<torch::nn::SequentialImpl>(
        "net", make, [](auto& net, const at::Tensor& x, const ForwardPass&) { return net.forward(x); })};
  }
  MicroBatch micro_batch(data::Part part, std::span<const int64_t> samples, const data::BatchPart& mine,
                         Step step) const override {
    std::vector<double> x;
    for (const int64_t i : samples.subspan(static_cast<size_t>(mine.begin), static_cast<size_t>(mine.count)))
      x.push_back(part == data::Part::test && !texts_.empty() ? texts_[static_cast<size_t>(i)]
                                                              : static_cast<double>(i) / 20 - 1);
    const at::Tensor input = at::tensor(x, at::kDouble).unsqueeze(1);
    return {input, input.square(), {step}, mine.count};
  }
  at::Tensor loss(const at::Tensor& output, const MicroBatch& batch, const Grid&) const override {
    return at::mse_loss(output, batch.target, at::Reduction::Sum);
  }
  void take_texts(std::span<const std::string> texts) override {
    texts_.clear();
    for (const std::string& text : texts) texts_.push_back(std::stod(text));
  }
  std::vector<Prediction> predictions(const at::Tensor& output, const MicroBatch&, const Grid&) const override {
    std::vector<Prediction> predictions;
    for (int64_t i = 0; i < output.size(0); ++i)
      predictions.push_back({.what = "square", .value = output[i][0].item<double>()});
    return predictions;
  }

 private:
  std::vector<double> texts_;
};

std::unique_ptr<Task> make(const Configuration&) {
  return std::make_unique<Square>();
}

double trained_loss(const std::filesystem::path& folder, int64_t dp, int64_t tp) {
  Configuration c{.batch = 7, .epochs = 60, .lr = 3e-2, .precision = Precision::fp64, .dp = dp, .tp = tp};
  c.threads_per_rank = 1;
  c.out = folder.string();
  train(c, make);
  return nlohmann::json::parse(test::contents_of(folder / "summary.json")).at("test_loss");
}

TEST(OwnTask, of_a_plain_module_trains_the_same_model_in_every_layout_and_is_evaluated_and_used) {
  const test::TemporaryFolder folder;
  const double alone = trained_loss(folder / "1", 1, 1);
  EXPECT_LT(alone, 0.1);
  EXPECT_NEAR(trained_loss(folder / "dp", 3, 1), alone, 1e-9);
  EXPECT_NEAR(trained_loss(folder / "tp", 2, 2), alone, 1e-9);

  const EvaluationResult found = evaluate({{.model = (folder / "dp").string(), .grid = {.dp = 2}}, {}}, make);
  EXPECT_NEAR(found.evaluation.loss, alone, 1e-9);

  std::vector<std::string> texts{"0.5", "-0.25", "0"};
  std::vector<double> squares;
  predict({.model = (folder / "tp").string(), .grid = {.dp = 2}},
          {.next = [&] { return std::exchange(texts, {}); },
           .answer =
               [&](std::span<const Prediction> predictions) {
                 for (const Prediction& p : predictions) squares.push_back(p.value);
               }},
          make);
  ASSERT_EQ(squares.size(), 3u);
  EXPECT_GT(squares[0], squares[2]);
}

}  // namespace
}  // namespace adjoin::train
