// Trains a model of one's own, a line through points, by the loop of `adjoin train`: data and tensor parallel, with
// checkpoints, metrics and progress.
//
// usage: own_task POINTS.csv OUT [RANKS]    lines of x,y; OUT becomes a folder as that of adjoin train

#include <ATen/ops/mse_loss.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <fstream>

#include "adjoin/nn/col_row.hpp"
#include "adjoin/train/run.hpp"
#include "examples/support/arguments.hpp"

using namespace adjoin;

namespace {

class Regression : public train::Task {
 public:
  explicit Regression(const std::string& path) {
    std::ifstream file(path);
    double x = 0, y = 0;
    for (char comma = 0; file >> x >> comma >> y;) points_.push_back({x, y});
    ensure(points_.size() >= 10, path + ": expected at least 10 lines of x,y");
  }

  // Every tenth point is held out.
  int64_t size(data::Part part) const override {
    const int64_t held_out = std::ssize(points_) / 10;
    return part == data::Part::test ? held_out : std::ssize(points_) - held_out;
  }
  std::vector<int64_t> lengths(data::Part part) const override { return std::vector<int64_t>(size(part), 1); }

  models::Model model(const Grid& grid, const at::TensorOptions& tensor) const override {
    nn::ColRow net({.in_features = 1, .hidden_features = 64, .out_features = 1, .tensor = tensor}, grid, "tp");
    return {net.ptr(), {{"net", 0, net.ptr(), [net](const at::Tensor& x, const StepContext& c) mutable { return net(x, c); }}}};
  }

  train::MicroBatch micro_batch(data::Part part, std::span<const int64_t> samples, const data::BatchPart& mine,
                                StepContext context) const override {
    std::vector<double> x, y;
    for (const int64_t sample : samples.subspan(mine.begin, mine.count)) {
      const auto [xi, yi] = points_[part == data::Part::test ? 10 * sample + 9 : sample + sample / 9];
      x.push_back(xi);
      y.push_back(yi);
    }
    context.first_sample = mine.begin;
    return {.input = at::tensor(x, at::kFloat).unsqueeze(1), .target = at::tensor(y, at::kFloat).unsqueeze(1), .context = context, .tokens = mine.count};
  }

  at::Tensor loss(const at::Tensor& output, const train::MicroBatch& batch) const override {
    return at::mse_loss(output, batch.target, at::Reduction::Sum);
  }
  std::vector<double> tally(const at::Tensor& output, const train::MicroBatch& batch) const override {
    return {(output - batch.target).abs().sum().item<double>()};
  }
  std::vector<train::Measure> measures(std::span<const double> tally, double units) const override {
    return {{"error", tally.empty() ? 0 : tally[0] / units}};
  }

 private:
  struct Point { double x, y; };
  std::vector<Point> points_;
};

}  // namespace
