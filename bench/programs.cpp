// build/release/bench/bench_programs FOLDER BATCH TOKENS [TP PP TURNS]
//
// A training step of an exported program over one of adjoin's own model of the same sizes, in turns, on ranks that are threads.
// FOLDER has net.pt2 and transformers' config.json (bench/peers/programs_torch.py). Times are of the processor, of all ranks together.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/comm/launch.hpp"
#include "adjoin/hugging_face/family.hpp"
#include "adjoin/lab/measure/stopwatch.hpp"
#include "adjoin/lab/measure/timing.hpp"
#include "adjoin/store/read_text.hpp"
#include "adjoin/tensors/decoder_program.hpp"
#include "adjoin/tensors/text_program.hpp"
#include "adjoin/train/bench/vocabularies.hpp"
#include "adjoin/train/trainer.hpp"

using namespace adjoin;
using namespace adjoin::train;

namespace {

/// `count` samples of `length` tokens.
data::TokenStore samples_of(int64_t words, int64_t count, int64_t length) {
  data::TokenStoreBuilder samples(words);
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t> ids;
    for (int64_t t = 0; t < length; ++t) ids.push_back(5 + (i * 31 + t * t * 7) % (words - 6));
    samples.add(ids, i % 2);
  }
  return samples.finish();
}

/// Our model's task, and the program's.
std::pair<std::unique_ptr<Task>, std::unique_ptr<Task>> tasks_of(const Configuration& own, const Configuration& c) {
  const int64_t words = own.vocabulary_size;
  const auto net = std::make_shared<const ProgramNet>(c);
  if (own.model == ModelKind::classifier) {
    const TrainingInput input{{words_of(words), data::ClassNames()}, samples_of(words, c.batch, c.sequence), {}};
    return {std::make_unique<TextClassification>(own, input), std::make_unique<TextProgram>(net, c, input)};
  }
  const int64_t tokens = c.batch * c.sequence + 1;
  const data::DocumentTokens documents{.name = "numbers",
                                       .tokens = samples_of(words, 1, tokens),
                                       .counts = {.documents = 1, .bytes = tokens, .tokens = tokens},
                                       .words = words,
                                       .end_of_document = words - 1};
  const LanguageInput input{std::make_shared<Numbers>(words), documents, documents};
  return {std::make_unique<LanguageModelling>(own, input), std::make_unique<DecoderProgram>(net, c, input)};
}

void measure_steps(const Configuration& own, const Configuration& c, const Task& of_own, const Task& of_program,
                   const Communicator& world, int turns) {
  constexpr int kWarmUp = 3;
  Trainer ours(own, of_own, world), program(c, of_program, world);
  ours.initialize();
  std::vector<int64_t> samples(static_cast<size_t>(own.batch));
  std::iota(samples.begin(), samples.end(), int64_t{0});
  std::vector<double> times[2];
  for (int turn = 0; turn < turns + kWarmUp; ++turn)
    for (const int which : {0, 1}) {
      world.barrier();
      measure::Stopwatch watch;
      (which == 0 ? ours : program).step(samples, turn, 1e-4);
      double of_all = watch.lap().processor;
      world.all_reduce(buffer(of_all));
      if (turn >= kWarmUp) times[which].push_back(of_all);
    }
  const double a = measure::median(times[0]), b = measure::median(times[1]);
  if (world.rank() == 0) std::printf("own %.2f ms, program %.2f ms: %.3f\n", 1e3 * a, 1e3 * b, b / a);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) {
    std::fprintf(stderr, "usage: bench_programs FOLDER BATCH TOKENS [TP PP TURNS]\n");
    return 2;
  }
  const std::string folder = argv[1];
  Configuration own;
  const auto config = nlohmann::ordered_json::parse(read_text(folder + "/config.json"));
  read_model(family_of(config), config, own);
  own.vocabulary_size = config.at("vocab_size").get<int64_t>();
  own.model = config.at("model_type") == "bert" ? ModelKind::classifier : ModelKind::decoder;
  own.batch = std::atoll(argv[2]);
  own.sequence = std::atoll(argv[3]);
  own.tp = argc > 4 ? std::atoll(argv[4]) : 1;
  own.pp = argc > 5 ? std::atoll(argv[5]) : 1;
  own.dp = 1;
  own.microbatches = own.pp > 1 ? 4 : 1;
  own.precision = Precision::fp32;
  own.token_dropout = own.dropout = own.attention_dropout = 0;
  Configuration c;
  c.program = folder + "/net.pt2";
  c.vocab = "numbers";
  c.task = kProgramTask;
  c.model = own.model;
  c.vocabulary_size = own.vocabulary_size;
  c.token_dropout = 0;
  static_cast<GridSizes&>(c) = own;
  c.batch = own.batch;
  c.sequence = own.sequence;
  c.microbatches = own.microbatches;
  const auto [of_own, of_program] = tasks_of(own, c);
  launch(static_cast<int>(own.tp * own.pp), [&, &of_own = of_own, &of_program = of_program](const Communicator& world) {
    measure_steps(own, c, *of_own, *of_program, world, argc > 6 ? std::atoi(argv[6]) : 20);
  });
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_programs: %s\n", error.what());
  return 1;
}
