#include <unistd.h>

#include <algorithm>
#include <span>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/line_reader.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/cli/output.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/train/predictor.hpp"

namespace adjoin::cli {
namespace {

constexpr size_t kAtOnce = 64;  // texts

struct PredictRequest : train::TensorPrediction {
  bool json = false, all = false;
  const CLI::App* command = nullptr;
};

/// Says where the model has cut a text.
void warn_of_cut(int64_t text, const train::CutText& cut) {
  const std::string all = counted(cut.tokens, "token"), at_once = std::to_string(cut.at_once);
  train::warn("text " + std::to_string(text) + " has " + all +
              (cut.goes_on ? ", which the model reads in pieces of " + at_once + " that do not see each other"
                           : ", of which the model reads the first " + at_once));
}

/// `answered`: how many texts have come before.
void answer(std::span<const train::Prediction> predictions, const PredictRequest& options, int64_t& answered) {
  for (const train::Prediction& prediction : predictions) {
    require(!options.all || !prediction.classes.empty(), [&] {
      return "--all: prints the classes of a classifier, and the model in " + options.model + " has none";
    });
    ++answered;
    Json fields;
    if (!prediction.label.empty()) fields["label"] = prediction.label;
    fields[prediction.what] = prediction.value;
    std::string line;
    if (!prediction.label.empty()) line = shown_text(prediction.label) + "\t";
    line += fixed(prediction.value, 4);
    for (const auto& [name, probability] : prediction.classes) {
      if (!options.all) break;
      fields["probabilities"][name] = probability;
      if (name == prediction.label) continue;
      line.append("\t").append(shown_text(name)).append("\t").append(fixed(probability, 4));
    }
    if (prediction.cut)
      fields.update({{"tokens", prediction.cut->tokens}, {"tokens_at_once", prediction.cut->at_once}});
    if (prediction.cut && !options.json) warn_of_cut(answered, *prediction.cut);
    write_line(options.json ? json_line(fields) : line);
  }
  flush_output();
}

void run_predict(PredictRequest options, std::span<const std::string> texts) {
  if (options.command->count("--dp") == 0)
    options.ranks.dp = std::max<int64_t>(1, mpi_job_size() / std::max<int64_t>(1, options.ranks.tp));
  require(options.data.empty() == options.out.empty(), "--data and --out are for tensors: give both or none of them");
  if (!options.data.empty()) {
    require(texts.empty(), "--data is given, and texts too");
    const std::vector<int64_t> shape = train::predict(static_cast<const train::TensorPrediction&>(options));
    if (prints())
      write_line(options.json ? json_line({{"out", options.out}, {"shape", shape}})
                              : options.out + ": [" + joined(shape) + "]");
    return flush_output();
  }
  LineReader input(STDIN_FILENO);
  const auto next = [&, rest = texts]() mutable {
    if (texts.empty()) return input.next(kAtOnce);
    const auto now = rest.first(std::min(kAtOnce, rest.size()));
    rest = rest.subspan(now.size());
    return std::vector<std::string>(now.begin(), now.end());
  };
  int64_t answered = 0;
  train::predict(options, {next, [&](const auto& predictions) { answer(predictions, options, answered); }});
}

}  // namespace

void add_predict(Program& program) {
  auto options = std::make_shared<PredictRequest>();
  CLI::App* command = add_command(
      program, program.app, "predict",
      "Print for each text its likeliest class and its probability, separated by a tab; or how many bits a decoder "
      "needs for a byte of it; or write what a program makes of tensors",
      [options, &program] { run_predict(*options, program.texts); },
      {model_row(options->model), step_row(options->step),
       text("--data", options->data, "PATH",
            "Of a program on tensors: the tensors to predict, as adjoin train reads them, of a folder with a part test "
            "that; y is not needed"),
       file("--out", options->out,
            "File for what the program makes of --data, a row for each sample: NAME.npy, else safetensors with the "
            "tensor y"),
       number("--batch", options->batch, "Samples of --data computed at once over all ranks; 0: as in the training run",
              0),
       flag("--all", options->all,
            "Print after it the other classes with their probabilities, the likeliest first; with --json "
            "probabilities, of each class by its name"),
       json_row(options->json,
                "object per line: label and probability, or bits_per_byte; of a text that the model does "
                "not read at once also its tokens and tokens_at_once; of --data out and shape"),
       texts("text", program.texts, "TEXT ...",
             "Texts; without any, each line of standard input is one, answered as it comes. A text that begins with "
             "two dashes comes after --")});
  options->command = program.takes_texts = command;
  add_layout_options(*command, {{"dp", &options->ranks.dp}, {"tp", &options->ranks.tp}}, *options);
}

}  // namespace adjoin::cli
