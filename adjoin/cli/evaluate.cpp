#include <cstdio>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/train/run.hpp"

namespace adjoin::cli {
namespace {

struct Options : train::EvaluateOptions {
  bool json = false;
};

void run(const Options& options) {
  require_given(options.model, "--model");
  require_given(options.data, "--data");
  require(options.samples >= 0,
          [&] { return "--samples is " + std::to_string(options.samples) + ", expected 0 or more"; });
  for (const auto& [name, value] : {std::pair{"--batch", options.batch}, {"--dp", options.dp}, {"--tp", options.tp}})
    require(value >= 1, [&] { return std::string(name) + " is " + std::to_string(value) + ", expected 1 or more"; });
  const train::EvaluationResult result = train::evaluate(options);
  if (!prints()) return;
  if (options.json) {
    const nlohmann::ordered_json json = {
        {"samples", result.samples}, {"loss", result.loss}, {"accuracy", result.accuracy}, {"seconds", result.seconds}};
    std::printf("%s\n", json.dump().c_str());
  } else {
    std::printf("accuracy %.2f %%   loss %.4f   %ld samples in %.1f s\n", 100 * result.accuracy, result.loss,
                static_cast<long>(result.samples), result.seconds);
  }
}

}  // namespace

void add_evaluate(Program& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(program, program.app, "evaluate", "Measure a trained model on test reviews",
                                  [options] { run(*options); });
  command->add_option("--model", options->model, "Output folder of a training run (required)")->option_text("DIR");
  command->add_option("--data", options->data, "Reviews, as for adjoin train; the test part is used (required)")
      ->option_text("PATH");
  add_number(*command, "--samples", options->samples, "Test samples to use, in a balanced order; 0: all [0]");
  add_number(*command, "--batch", options->batch, "Samples computed at once over all ranks [64]");
  command->add_flag("--json", options->json, "Print one JSON object: samples, loss, accuracy, seconds [false]");
  add_layout_options(*command, options->dp, options->tp, options->backend, options->threads_per_rank);
}

}  // namespace adjoin::cli
