#include <cstdio>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/cli/class_report.hpp"
#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/train/run.hpp"

namespace adjoin::cli {
namespace {

constexpr size_t kColumns = 80;

struct Options : train::EvaluateOptions {
  bool json = false;
};

nlohmann::ordered_json to_json(const train::EvaluationResult& result) {
  nlohmann::ordered_json json = {{"samples", result.samples},         {"loss", result.loss},
                                 {"accuracy", result.counts.accuracy()},       {"seconds", result.seconds},
                                 {"classes", result.classes.names()}, {"f1", nlohmann::json::array()}};
  const train::ClassCounts& counts = result.counts;
  for (int64_t c = 0; c < counts.classes(); ++c) json["f1"].push_back(counts.f1(c));
  for (int64_t actual = 0; counts.has_pairs() && actual < counts.classes(); ++actual) {
    nlohmann::ordered_json row;
    for (int64_t taken = 0; taken < counts.classes(); ++taken) row.push_back(counts.pair(actual, taken));
    json["confusion"].push_back(row);
  }
  return json;
}

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
    std::printf("%s\n", to_json(result).dump().c_str());
  } else {
    std::printf("accuracy %.2f %%   loss %.4f   %ld samples in %.1f s\n", 100 * result.counts.accuracy(), result.loss,
                static_cast<long>(result.samples), result.seconds);
    std::printf("\n%s", class_report(result.classes, result.counts, kColumns).c_str());
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
  command->add_option("--text-column", options->columns.text, "Name of the column of texts [that of the training run]")
      ->option_text("NAME");
  command
      ->add_option("--label-column", options->columns.label, "Name of the column of labels [that of the training run]")
      ->option_text("NAME");
  add_number(*command, "--samples", options->samples, "Test samples to use, in a balanced order; 0: all [0]");
  add_number(*command, "--batch", options->batch, "Samples computed at once over all ranks [64]");
  command->add_flag("--json", options->json,
                    "Print one JSON object: samples, loss, accuracy, seconds, classes, f1 of each, confusion [false]");
  add_layout_options(*command, options->dp, options->tp, options->backend, options->threads_per_rank);
}

}  // namespace adjoin::cli
