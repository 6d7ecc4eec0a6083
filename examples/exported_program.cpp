// A network that Python exported (exported_program.py), trained on many workers, as docs/programs.md shows: batches are cut over "dp",
// and where the ranks are even in number its weights over "tp"; or, with --stages, it is cut into a stage a rank. What it has learned
// goes back to Python.

#include <ATen/ATen.h>
#include <torch/optim/adamw.h>

#include <CLI/App.hpp>

#include "adjoin/data/sampler.hpp"
#include "adjoin/parallel/distribute.hpp"
#include "adjoin/parallel/pipelined.hpp"
#include "adjoin/pipeline/schedule.hpp"
#include "adjoin/program/program.hpp"
#include "adjoin/program/save_state.hpp"
#include "adjoin/program/stages.hpp"
#include "examples/support/digits.hpp"

using namespace adjoin;

namespace {

void learn_digits(const Communicator& world, const example::DigitsOptions& options, const std::string& file,
                  const std::string& out, example::Report& report) {
  const auto [train, test] = example::read_digits(options);
  data::Sampler sampler({.samples = train.size(), .batch = example::kDigitsOfStep, .seed = 1});
  std::vector<double> losses;

  const auto net = program::load_program(file);
  const int tp = world.size() % 2 == 0 ? 2 : 1;
  const Grid grid(world, {{"dp", world.size() / tp}, {"tp", tp}});
  auto model = parallel::distribute(
      net, grid,
      {.weights = {{"1.*", "outputs over tp"}, {"4.weight", "inputs over tp"}}, .inputs = {"samples over dp"}});
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(2e-3));
  for (int64_t step = 0; step < example::steps_of(options); ++step) {
    const example::Digits batch = train.chosen(sampler.next());  // the whole one, on every rank
    const at::Tensor scores = model.forward({.seed = 1, .number = step}, batch.pictures);
    const at::Tensor loss = at::cross_entropy_loss(scores, batch.labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
    if (step % 100 == 0) report.line("step %4ld  loss %.4f", static_cast<long>(step), losses.back());
  }
  if (!out.empty()) program::save_state(*net, out);

  const at::NoGradGuard no_gradient;
  net->eval();
  const at::Tensor scores = model.forward({}, test.pictures);
  const at::Tensor right = scores.argmax(1).eq(test.labels);
  example::report_outcome(report, right.to(at::kDouble).mean().item<double>(), test, losses);
}

void learn_in_stages(const Communicator& world, const example::DigitsOptions& options, const std::string& file,
                     const std::string& out, example::Report& report) {
  const auto [train, test] = example::read_digits(options);
  data::Sampler sampler({.samples = train.size(), .batch = example::kDigitsOfStep, .seed = 1});
  std::vector<double> losses;

  const auto net = program::load_program(file);
  net->recompute({"2"});  // the activation
  const Grid grid(world, {{"pp", world.size()}});
  parallel::Pipelined model(*net, program::stages(net, world.size(), world, {train.part(0, 25).pictures}), grid,
                            pipeline::make_schedule("1f1b", world.size(), /*micro_batches=*/2));
  torch::optim::AdamW optimizer(model.weights(), torch::optim::AdamWOptions(2e-3));
  for (int64_t step = 0; step < example::steps_of(options); ++step) {
    const example::Digits batch = train.chosen(sampler.next());
    const std::vector<example::Digits> halves{batch.part(0, 25), batch.part(25, 50)};
    optimizer.zero_grad();
    losses.push_back(model.run({.seed = 1, .number = step}, {halves[0].pictures, halves[1].pictures},
                               [&](int i, const at::Tensor& scores) {
                                 return at::cross_entropy_loss(scores, halves[static_cast<size_t>(i)].labels) / 2;
                               }));
    optimizer.step();
  }
  if (!out.empty()) program::save_state(*net, model.parameters(), out);

  const at::NoGradGuard no_gradient;
  net->eval();
  const double right = model.run({}, {test.pictures}, [&](int, const at::Tensor& scores) {
    return scores.argmax(1).eq(test.labels).to(at::kDouble).mean();  // in the place of a loss
  });
  example::report_outcome(report, right, test, losses);
}

}  // namespace

int main(int argc, char** argv) {
  std::string file, out;
  bool in_stages = false;
  return example::run_on_digits(
      argc, argv, "A network from Python, trained on MNIST's digits.",
      [&](const Communicator& world, const example::DigitsOptions& options, example::Report& report) {
        (in_stages ? learn_in_stages : learn_digits)(world, options, file, out, report);
      },
      [&](CLI::App& app) {
        app.add_option("--program", file, "File that exported_program.py wrote, in float64")->required();
        app.add_option("--out", out, "File for the weights: .safetensors or .pt2");
        app.add_flag("--stages", in_stages, "Cut it into a stage of a pipeline for each rank");
      });
}
