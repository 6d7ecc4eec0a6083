#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>

#include "adjoin/base/error.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/cli/line_reader.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/train/predictor.hpp"

namespace adjoin::cli {
namespace {

constexpr size_t kAtOnce = 64;  // texts

struct PredictOptions {
  std::string model;
  bool json = false;
};

void answer(train::Predictor& predictor, std::span<const std::string> texts, bool json) {
  for (const train::Prediction& prediction : predictor.predict(texts)) {
    nlohmann::ordered_json fields;
    if (!prediction.label.empty()) fields["label"] = prediction.label;
    fields[prediction.what] = prediction.value;
    if (json)
      std::puts(fields.dump().c_str());
    else
      std::printf("%s%.4f\n", prediction.label.empty() ? "" : (printable(prediction.label) + "\t").c_str(),
                  prediction.value);
  }
  flush_output();
}

/// The same of texts of which one may be refused, after the answers to those before it. `first` counts from 1.
void answer_each(train::Predictor& predictor, std::span<const std::string> texts, bool json, size_t first) {
  try {
    answer(predictor, texts, json);
  } catch (const InvalidArgument& error) {
    if (texts.size() == 1) throw InvalidArgument("text " + std::to_string(first) + ": " + error.what());
    for (size_t i = 0; i < texts.size(); ++i) answer_each(predictor, texts.subspan(i, 1), json, first + i);
  }
}

void answer_input(train::Predictor& predictor, bool json) {
  LineReader input(STDIN_FILENO);
  size_t answered = 0;
  for (auto lines = input.next(kAtOnce); !lines.empty(); lines = input.next(kAtOnce)) {
    answer_each(predictor, lines, json, answered + 1);
    answered += lines.size();
  }
}

void run_predict(const PredictOptions& options, std::span<const std::string> texts) {
  require_given(options.model, "--model");
  if (!prints()) return;
  train::Predictor predictor(options.model);
  if (texts.empty()) return answer_input(predictor, options.json);
  for (size_t begin = 0; begin < texts.size(); begin += kAtOnce)
    answer_each(predictor, texts.subspan(begin, std::min(kAtOnce, texts.size() - begin)), options.json, begin + 1);
}

}  // namespace

void add_predict(Program& program) {
  auto options = std::make_shared<PredictOptions>();
  CLI::App* command = add_command(program, program.app, "predict",
                                  "Print for each text its likeliest class and the probability of that, separated by a "
                                  "tab; or how many bits a decoder needs for a byte of it",
                                  [options, &program] { run_predict(*options, program.texts); });
  command->add_option("--model", options->model, "Output folder of a training run (required)")->option_text("DIR");
  command->add_flag("--json", options->json,
                    "Print one JSON object a line: label and probability, or bits_per_byte [false]");
  command
      ->add_option("text", program.texts,
                   "Reviews; without any, one a line is read from standard input and answered as it comes. A text that "
                   "is the name of an option stands after --")
      ->option_text("TEXT ...");
  program.takes_texts = command;
}

}  // namespace adjoin::cli
