#include <unistd.h>

#include <cmath>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/cli/line_reader.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/cli/output.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/train/generator.hpp"

namespace adjoin::cli {
namespace {

struct GenerateCommand {
  train::GenerationRequest request;
  std::optional<double> temperature, top_p;
  std::optional<int64_t> top_k, seed;
  std::vector<std::string> prompts;
  bool is_whole = false, json = false;
};

/// Takes the prompts on the command line; if there are none, the lines of standard input as they come, or all of it.
void take_prompts(const GenerateCommand& options, train::GenerationRequest& request) {
  require(options.prompts.empty() || !options.is_whole, "--whole makes one prompt of standard input: give no others");
  request.prompts = options.prompts;
  if (!options.prompts.empty()) return;
  require(!started_by_mpi(), "a prompt is needed, in quotes: under mpirun it cannot come from standard input");
  if (options.is_whole) {
    request.prompts = {std::string(std::istreambuf_iterator<char>(std::cin), {})};
    return;
  }
  constexpr size_t kAtOnce = 16;
  const auto next = [input = std::make_shared<LineReader>(STDIN_FILENO)] { return input->next(kAtOnce); };
  std::vector<std::string> lines;
  do {  // until it is known whether there is one prompt or several
    if (::isatty(STDIN_FILENO) == 0) lines = next();
    request.prompts.insert(request.prompts.end(), lines.begin(), lines.end());
  } while (!lines.empty() && request.prompts.size() < 2);
  require(!request.prompts.empty(), "a prompt is needed, in quotes or on standard input");
  if (request.prompts.size() > 1) request.more = next;
}

void run_generate(GenerateCommand& options) {
  train::GenerationRequest& request = options.request;
  take_prompts(options, request);
  const double temperature = options.temperature.value_or(1), top_p = options.top_p.value_or(1);
  require(temperature >= 0 && std::isfinite(temperature),
          [&] { return "--temperature is " + train::shown(temperature) + ", expected a number of 0 or more"; });
  require(top_p > 0 && top_p <= 1,
          [&] { return "--top-p is " + train::shown(top_p) + ", expected more than 0, and at most 1"; });
  if (options.temperature || options.top_k || options.top_p || options.seed) {
    models::Sampling sampling{.temperature = temperature,
                              .top_k = options.top_k,
                              .top_p = top_p,
                              .seed = static_cast<uint64_t>(options.seed.value_or(1))};
    if (temperature > 0) request.sampling = sampling;
  }
  const bool comes_in_pieces = request.prompts.size() == 1 && !options.json;
  train::Readers readers;
  if (comes_in_pieces)
    readers.piece = [](std::string_view text) {
      write_out(shown_text(text));
      flush_output();
    };
  else
    readers.whole = [&, is_first = true](const train::WrittenText& text) mutable {
      Report report{options.json};
      report.json = {{"prompt", text.prompt}, {"text", text.continuation}, {"tokens", text.tokens}};
      report.text << (std::exchange(is_first, false) ? "" : "\n") << text.prompt << text.continuation << '\n';
      report.print();
      flush_output();
    };
  train::generate(request, readers);
  if (prints() && comes_in_pieces) write_line("");
}

}  // namespace

void add_generate(Program& program) {
  auto options = std::make_shared<GenerateCommand>();
  train::GenerationRequest& request = options->request;
  CLI::App* command = add_command(
      program, program.app, "generate",
      "Continue texts with a decoder. A program computes all earlier tokens again for each new one",
      [options] { run_generate(*options); },
      {text("--model", request.model, "DIR",
            "Output folder of a training run, or a folder of Hugging Face's transformers; its model is a decoder",
            /*is_required=*/true),
       step_row(request.step),
       number("--tokens", request.tokens,
              "The most tokens to write; fewer if the document ends earlier [100, or as many as the context has room "
              "for]",
              1),
       number("--temperature", options->temperature,
              "Draw each token at random; scores are divided by this, so a lower one favours likely tokens. With 0, or "
              "without this and the next three options, the likeliest token is always taken [1]"),
       number("--top-k", options->top_k, "Draw among only so many of the likeliest tokens [all]", 1),
       number("--top-p", options->top_p,
              "Draw among only the fewest likeliest tokens that together have this probability, above 0 to 1 [1]"),
       number("--seed", options->seed, "Decides the draws, on every layout the same [1]", 0),
       flag("--whole", options->is_whole, "Take all of standard input as one prompt, to the byte"),
       json_row(options->json, "object per text: prompt, text (what follows it), and tokens, the number written"),
       texts("prompt", options->prompts, "PROMPT...",
             "The beginning of each text, in quotes, also of several lines; without any, each line of standard input "
             "is one")});
  add_layout_options(*command, {{"pp", &request.ranks.pp}, {"tp", &request.ranks.tp}}, request);
}

}  // namespace adjoin::cli
