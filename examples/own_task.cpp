// A task of your own, a curve through the points of a CSV file, trained by the loop of `adjoin train`: data and tensor
// parallel, with checkpoints, metrics and progress, or in the layout that a plan chooses.
#include <ATen/ATen.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/linear.hpp"
#include "adjoin/plan/dry_run.hpp"
#include "adjoin/plan/plan.hpp"
#include "adjoin/task/task.hpp"
#include "adjoin/train/commands.hpp"

using namespace adjoin;

class Curve : public train::Task {
 public:
  /// Takes the points from lines "x,y"; without a file, from a sine.
  explicit Curve(const std::string& file) {
    std::ifstream lines(file);
    double x = 0, y = 0;
    for (char comma = 0; lines >> x >> comma >> y;) points_.emplace_back(x, y);
    for (x = -3; file.empty() && x < 3; x += 0.01) points_.emplace_back(x, std::sin(x));
    if (points_.size() < 20) throw InvalidArgument(file + ": expected at least 20 lines \"x,y\"");
  }

  std::string name() const override { return "curve"; }

  // Every tenth point is held out.
  int64_t size(data::Part part) const override {
    const int64_t tested = std::ssize(points_) / 10;
    return part == data::Part::test ? tested : std::ssize(points_) - tested;
  }
  std::vector<int64_t> lengths(data::Part part) const override { return std::vector<int64_t>(size(part), 1); }

  std::vector<models::Segment> segments() const override {
    const auto make = [](const Grid& grid, const at::TensorOptions& tensor) {
      const nn::ColRowOptions sizes{.in_features = 1, .hidden_features = 64, .out_features = 1, .tensor = tensor};
      return nn::ColRow(sizes, grid, "tp").ptr();
    };
    return {models::segment<nn::ColRowImpl>(
        "net", make, [](auto& net, const at::Tensor& x, const ForwardPass& pass) { return net.forward(x, pass); })};
  }
  train::MicroBatch micro_batch(data::Part part, std::span<const int64_t> samples, const data::BatchPart& mine,
                                Step step) const override {
    std::vector<float> x, y;
    for (const int64_t i : samples.subspan(mine.begin, mine.count)) {
      const auto& point = points_[part == data::Part::test ? 10 * i + 9 : i + std::min(i / 9, size(data::Part::test))];
      x.push_back(point.first), y.push_back(point.second);
    }
    step.first_sample = mine.begin;
    return {at::tensor(x).unsqueeze(1), at::tensor(y).unsqueeze(1), {step}, mine.count};
  }
  at::Tensor loss(const at::Tensor& output, const train::MicroBatch& batch, const Grid&) const override {
    return at::mse_loss(output, batch.target, at::Reduction::Sum);
  }
  std::vector<double> tally(const at::Tensor& output, const train::MicroBatch& batch) const override {
    return {(output - batch.target).abs().sum().item<double>()};
  }
  std::vector<train::Measure> measures(double, std::span<const double> tally, double points) const override {
    return {{.name = "error", .value = tally[0] / points}};
  }

 private:
  std::vector<std::pair<float, float>> points_;
};

int main(int argc, char** argv) {
  std::string file;
  int64_t ranks = 0;
  bool is_dry = false;
  std::vector<std::string> settings;
  train::Configuration c;
  c.epochs = 30, c.lr = 1e-2, c.overwrite = true;
  c.out = std::filesystem::temp_directory_path() / "own_task";
  CLI::App app("A curve through points, trained by the loop of adjoin train.", "own_task");
  app.add_option("--data", file, "Lines \"x,y\"; without it points of a sine")->option_text("FILE");
  app.add_option("--out", c.out, "Folder for model, checkpoints and metrics [" + c.out + "]")->option_text("DIR");
  app.add_option("--epochs", c.epochs, "Passes over the points [30]")->option_text("N");
  app.add_option("--dp", c.dp, "Data-parallel ranks [1]")->option_text("N");
  app.add_option("--tp", c.tp, "Tensor-parallel ranks [1]")->option_text("N");
  app.add_option("--resume", c.resume, "Folder of a run to continue, or auto: that of --out")->option_text("DIR");
  app.add_flag("--dry-run", is_dry, "Train nothing: print what a step needs of each rank");
  app.add_option("--set", settings, "Any option of adjoin train, as in zero=2 or precision=fp64")
      ->option_text("NAME=V");
  app.add_option("--ranks", ranks, "Ranks whose layout a plan decides, instead of --dp and --tp")->option_text("N");
  CLI11_PARSE(app, argc, argv);
  try {
    const auto make = [&](const train::Configuration&) { return std::make_unique<Curve>(file); };
    for (const std::string& setting : settings) {
      const size_t equals = std::min(setting.find('='), setting.size());
      const std::string value = setting.substr(std::min(equals + 1, setting.size()));
      train::set(train::field_named(setting.substr(0, equals)), value, c);
    }
    const plan::JobSession session;
    if (ranks > 0) c = agreed_best(plan::layouts(c, make, {.placement = {.ranks = ranks}}));
    is_dry ? plan::dry_run(c, make) : train::train(c, make);
  } catch (const std::exception& error) {
    return std::cerr << "own_task: " << error.what() << '\n', 2;
  }
}
