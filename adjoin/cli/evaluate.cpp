#include <cstdio>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/cli/output.hpp"
#include "adjoin/train/commands.hpp"

namespace adjoin::cli {
namespace {

constexpr size_t kColumns = 80;

struct Options : train::EvaluateOptions {
  bool json = false;
};

nlohmann::ordered_json to_json(const train::EvaluationResult& result) {
  const train::Evaluation& evaluation = result.evaluation;
  nlohmann::ordered_json json = {{"samples", result.task->size(data::Part::test)}, {"loss", evaluation.loss}};
  for (const train::Measure& measure : evaluation.measures) json[measure.name] = measure.value;
  if (!evaluation.expert_rows.empty()) json["expert_rows"] = evaluation.expert_rows;
  json["seconds"] = result.seconds;
  json.update(result.task->details(evaluation.tally));
  if (!result.texts.empty()) json["texts"] = result.texts;
  return json;
}

void print(const train::EvaluationResult& result) {
  const train::Evaluation& evaluation = result.evaluation;
  for (const train::Measure& measure : evaluation.measures)
    std::printf("%s %s   ", spoken(measure).c_str(), to_string(measure).c_str());
  std::printf("loss %.4f   %s in %.1f s\n", evaluation.loss,
              counted(result.task->size(data::Part::test), "sample").c_str(), result.seconds);
  if (!result.texts.empty()) write_line(shown_text("of " + result.texts));
  const std::string report = result.task->report(evaluation.tally, kColumns);
  if (!report.empty()) std::printf("\n%s", report.c_str());
}

void run(const Options& options) {
  require_given(options.model, "--model");
  check_least("--samples", options.source.samples, 0);
  check_least("--batch", options.batch, 0);
  check_least("--step", options.step, 0);
  check_least("--dp", options.grid.dp, 0);
  check_least("--ep", options.grid.ep, 1);
  check_least("--pp", options.grid.pp, 1);
  check_least("--tp", options.grid.tp, 1);
  const train::EvaluationResult result = train::evaluate(options);
  if (!prints()) return;
  if (options.json)
    write_line(json_line(to_json(result)));
  else
    print(result);
}

}  // namespace

void add_evaluate(Program& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      add_command(program, program.app, "evaluate", "Measure a model on test texts", [options] { run(*options); });
  add_text(*command, "--model", options->model, "DIR",
           "Output folder of a training run, or a folder of Hugging Face's transformers (required)");
  add_step(*command, options->step);
  add_text(*command, "--data", options->source.data, "PATH",
           "Texts, as for adjoin train: their test part, which is what training held out if the model was trained on "
           "them; all of other texts that have none [those of the training run]");
  add_text(*command, "--test", options->test, "PATH",
           "File or folder of test texts, instead of --data: all of them, if the folder has no test part");
  add_text(*command, "--text-column", options->source.columns.text, "NAME",
           "Name of the column of texts [that of the training run]");
  add_text(*command, "--label-column", options->source.columns.label, "NAME",
           "Name of the column of labels [that of the training run]");
  add_number(
      *command, "--samples", options->source.samples,
      "Test samples to use, in a balanced order; 0: all, or without --data and --test those of the training run [0]");
  add_number(*command, "--batch", options->batch,
             "Samples computed at once over all ranks; 0: as in the training run [0]");
  command->add_flag(
      "--json", options->json,
      "Print one JSON object: samples, loss, seconds, texts, and accuracy, classes, f1 of each, macro_f1, "
      "confusion, or perplexity and bits_per_byte; of a model with experts expert_rows [false]");
  add_layout_options(*command,
                     {{"dp", &options->grid.dp},
                      {"ep", &options->grid.ep},
                      {"pp", &options->grid.pp},
                      {"tp", &options->grid.tp},
                      {"zero", &options->zero}},
                     *options);
}

}  // namespace adjoin::cli
