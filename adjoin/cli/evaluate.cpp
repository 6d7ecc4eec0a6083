#include <cstdio>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/cli/output.hpp"
#include "adjoin/train/commands.hpp"

namespace adjoin::cli {
namespace {

struct Options : train::EvaluateOptions {
  bool json = false;
};

nlohmann::ordered_json to_json(const train::EvaluationResult& result) {
  const train::Evaluation& evaluation = result.evaluation;
  nlohmann::ordered_json json = {{"samples", result.samples}, {"loss", evaluation.loss}};
  for (const train::Measure& measure : evaluation.measures) json[measure.name] = measure.value;
  if (!evaluation.expert_rows.empty()) json["expert_rows"] = evaluation.expert_rows;
  json["seconds"] = result.seconds;
  json.update(result.details);
  if (!result.texts.empty()) json["texts"] = result.texts;
  return json;
}

void print(const train::EvaluationResult& result) {
  const train::Evaluation& evaluation = result.evaluation;
  for (const train::Measure& measure : evaluation.measures)
    std::printf("%s %s   ", spoken(measure).c_str(), to_string(measure).c_str());
  std::printf("loss %.4f   %s in %.1f s\n", evaluation.loss, counted(result.samples, "sample").c_str(), result.seconds);
  if (!result.texts.empty()) write_line(shown_text("of " + result.texts));
  if (!result.report.empty()) std::printf("\n%s", result.report.c_str());
}

void run(const Options& options) {
  const train::EvaluationResult result = train::evaluate(options);
  if (!prints()) return;
  options.json ? write_line(json_line(to_json(result))) : print(result);
}

}  // namespace

void add_evaluate(Program& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(
      program, program.app, "evaluate", "Measure a model on test texts", [options] { run(*options); },
      {model_row(options->model), step_row(options->step),
       text("--data", options->source.data, "PATH",
            "Texts, as for adjoin train: their test part, which is what training held out if the model was trained on "
            "them; all of other texts that have none [those of the training run]"),
       text("--test", options->test, "PATH",
            "File or folder of test texts, instead of --data: all of them, if the folder has no test part"),
       text("--text-column", options->source.columns.text, "NAME",
            "Name of the column of texts [that of the training run]"),
       text("--label-column", options->source.columns.label, "NAME",
            "Name of the column of labels [that of the training run]"),
       number("--samples", options->source.samples,
              "Test samples to use, in a balanced order; 0: all, or without --data and --test those of the training "
              "run",
              0),
       number("--batch", options->batch, "Samples computed at once over all ranks; 0: as in the training run", 0),
       flag("--json", options->json,
            "Print one JSON object: samples, loss, seconds, texts, and accuracy, classes, f1 of each, macro_f1, "
            "confusion, or perplexity and bits_per_byte; of a model with experts expert_rows")});
  add_layout_options(*command,
                     {{"dp", &options->ranks.dp},
                      {"ep", &options->ranks.ep},
                      {"pp", &options->ranks.pp},
                      {"tp", &options->ranks.tp},
                      {"zero", &options->ranks.zero}},
                     *options);
}

}  // namespace adjoin::cli
