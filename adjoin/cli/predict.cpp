#include <cstdio>
#include <iostream>

#include "adjoin/cli/options.hpp"
#include "adjoin/train/run.hpp"

namespace adjoin::cli {
namespace {

struct PredictOptions {
  std::string model;
  std::vector<std::string> texts;
};

std::vector<std::string> lines_of(std::istream& in) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

void run_predict(const PredictOptions& options) {
  require_given(options.model, "--model");
  const std::vector<std::string> texts = options.texts.empty() ? lines_of(std::cin) : options.texts;
  if (!prints()) return;
  for (const train::Prediction& prediction : train::predict(options.model, texts))
    std::printf("%s\t%.4f\n", prediction.positive ? "positive" : "negative", prediction.probability);
}

}  // namespace

void add_predict(Program& program) {
  auto options = std::make_shared<PredictOptions>();
  CLI::App* command =
      add_command(program, program.app, "predict",
                  "Print for each text positive or negative and the probability of that, separated by a tab",
                  [options] { run_predict(*options); });
  command->add_option("--model", options->model, "Output folder of a training run (required)")->option_text("DIR");
  command->add_option("text", options->texts, "Reviews; without any, one a line is read from standard input")
      ->option_text("TEXT ...");
}

}  // namespace adjoin::cli
