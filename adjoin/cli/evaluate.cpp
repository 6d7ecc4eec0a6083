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

void run(const Options& options) {
  const train::EvaluationResult result = train::evaluate(options);
  const train::Evaluation& evaluation = result.evaluation;
  Report report{options.json};
  report.json = {{"samples", result.samples}, {"loss", evaluation.loss}};
  for (const train::Measure& measure : evaluation.measures) {
    report.json[measure.name] = measure.value;
    report.text << spoken(measure) << ' ' << to_string(measure) << "   ";
  }
  if (!evaluation.expert_rows.empty()) report.json["expert_rows"] = evaluation.expert_rows;
  report.json["seconds"] = result.seconds;
  report.json.update(result.details);
  report.text << "loss " << fixed(evaluation.loss, 4) << "   " << counted(result.samples, "sample") << " in "
              << fixed(result.seconds, 1) << " s\n";
  if (!result.texts.empty()) {
    report.json["texts"] = result.texts;
    report.text << "of " << result.texts << '\n';
  }
  if (!result.report.empty()) report.text << '\n' << result.report;
  report.print();
}

}  // namespace

void add_evaluate(Program& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(
      program, program.app, "evaluate", "Measure a model on test texts", [options] { run(*options); },
      {model_row(options->model), step_row(options->step),
       text("--data", options->source.data, "PATH",
            "Texts, or of a program tensors, as for adjoin train: their test part, which is what training held out if "
            "the model was trained on "
            "them; all of others that have none [those of the training run]"),
       text("--test", options->test, "PATH",
            "File or folder of test texts or tensors, instead of --data: all of them, if the folder has no test part"),
       text("--text-column", options->source.columns.text, "NAME",
            "Name of the column of texts [that of the training run]"),
       text("--label-column", options->source.columns.label, "NAME",
            "Name of the column of labels [that of the training run]"),
       number("--samples", options->source.samples,
              "Test samples to use, in a balanced order; 0: all, or without --data and --test those of the training "
              "run",
              0),
       number("--batch", options->batch, "Samples computed at once over all ranks; 0: as in the training run", 0),
       json_row(options->json,
                "object: samples, loss, seconds, texts, and accuracy, classes, f1 of each, macro_f1, "
                "confusion, or perplexity and bits_per_byte, or r2; of a model with experts expert_rows")});
  add_layout_options(*command,
                     {{"dp", &options->ranks.dp},
                      {"ep", &options->ranks.ep},
                      {"pp", &options->ranks.pp},
                      {"tp", &options->ranks.tp},
                      {"zero", &options->ranks.zero}},
                     *options);
}

}  // namespace adjoin::cli
