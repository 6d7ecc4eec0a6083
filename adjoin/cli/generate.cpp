#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/train/generator.hpp"

namespace adjoin::cli {
namespace {

struct GenerateCommand {
  train::GenerationRequest request;
  std::optional<double> temperature, top_p;
  std::optional<int64_t> top_k, seed;
  std::vector<std::string> prompt;
};

std::string prompt_of(const GenerateCommand& options) {
  require(options.prompt.size() < 2, "one prompt is needed, in quotes");
  if (!options.prompt.empty()) return options.prompt.front();
  require(!started_by_mpi(), "the prompt is needed, in quotes: under mpirun it cannot come from standard input");
  std::string prompt;
  if (::isatty(STDIN_FILENO) == 0) prompt.assign(std::istreambuf_iterator<char>(std::cin), {});
  if (prompt.ends_with('\n')) prompt.pop_back();
  require(!prompt.empty(), "a prompt is needed, in quotes or on standard input");
  return prompt;
}

void run_generate(GenerateCommand& options) {
  train::GenerationRequest& request = options.request;
  require_given(request.model, "--model");
  request.prompt = prompt_of(options);
  require(!request.prompt.empty(), "the prompt is empty");
  check_least("--tokens", request.tokens.value_or(1), 1);
  check_least("--seed", options.seed.value_or(0), 0);
  if (options.temperature || options.top_k || options.top_p || options.seed) {
    models::Sampling sampling{.temperature = options.temperature.value_or(1),
                              .top_k = options.top_k,
                              .top_p = options.top_p.value_or(1),
                              .seed = static_cast<uint64_t>(options.seed.value_or(1))};
    const bool is_likeliest = sampling.temperature == 0;
    if (is_likeliest) sampling.temperature = 1;
    check(sampling);
    if (!is_likeliest) request.sampling = sampling;
  }
  train::generate(request, [](std::string_view text) {
    std::fputs(printable(text).c_str(), stdout);
    flush_output();
  });
  if (prints()) std::puts("");
}

}  // namespace

void add_generate(Program& program) {
  auto options = std::make_shared<GenerateCommand>();
  CLI::App* command = add_command(program, program.app, "generate", "Write a text on by a trained decoder",
                                  [options] { run_generate(*options); });
  train::GenerationRequest& request = options->request;
  add_text(*command, "--model", request.model, "DIR", "Output folder of a training run of a decoder (required)");
  add_number(
      *command, "--tokens", request.tokens,
      "The most tokens that are written; fewer where the document ends before [100, or what the context has room for]");
  add_number(
      *command, "--temperature", options->temperature,
      "Draws each token; scores are divided by this, so lower is more likely. With 0, or without this and the next "
      "three options, always the likeliest token comes [1]");
  add_number(*command, "--top-k", options->top_k, "Draws among so many likeliest tokens alone [all]");
  add_number(*command, "--top-p", options->top_p,
             "Draws among the fewest likeliest tokens that together have this probability, above 0 to 1 [1]");
  add_number(*command, "--seed", options->seed, "Decides the draws, on every layout the same [1]");
  add_text(*command, "prompt", options->prompt, "PROMPT",
           "The beginning of the text; without it standard input is, but for its last line end");
  add_layout_options(*command, {{"tp", &request.grid.tp}}, request.backend, request.threads_per_rank);
}

}  // namespace adjoin::cli
