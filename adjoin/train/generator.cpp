#include "adjoin/train/generator.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/models/generate.hpp"
#include "adjoin/models/sampling.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/task/same_bits.hpp"
#include "adjoin/task/transformer_options.hpp"
#include "adjoin/tensors/decoder_program.hpp"
#include "adjoin/texts/language_modelling.hpp"
#include "adjoin/train/saved_model.hpp"
#include "adjoin/train/stages.hpp"
#include "adjoin/train/trainer.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {
namespace {

constexpr size_t kTextsAtOnce = 16;  // their keys and values are in memory

/// Passes bytes on as soon as they are whole characters.
class WholeCharacters {
 public:
  explicit WholeCharacters(std::function<void(std::string_view)> write) : write_(std::move(write)) {}

  void add(std::string_view bytes) {
    if (!write_) return;
    pending_ += bytes;
    const size_t whole = pending_.size() - unfinished();
    if (whole > 0) write_(std::string_view(pending_).substr(0, whole));
    pending_.erase(0, whole);
  }
  /// Passes on bytes that have not become a character.
  void end() {
    if (!pending_.empty()) write_(std::exchange(pending_, ""));
  }

 private:
  /// The number of bytes at the end that may be the beginning of a character.
  size_t unfinished() const {
    for (size_t back = 1; back <= std::min<size_t>(3, pending_.size()); ++back) {
      const auto byte = static_cast<unsigned char>(pending_[pending_.size() - back]);
      const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : byte >= 0x80 ? 0 : 1;
      if (length > 0) return length > back ? back : 0;
    }
    return 0;
  }

  std::function<void(std::string_view)> write_;
  std::string pending_;
};

/// The tokens of each prompt, which come after `before` others. Throws: InvalidArgument for a prompt that is empty or leaves no
/// room
std::vector<models::Tokens> encoded(std::span<const std::string> texts, size_t before, const GenerationRequest& request,
                                    const data::TextVocabulary& vocabulary, int64_t context) {
  std::vector<models::Tokens> prompts;
  for (const std::string& text : texts) {
    prompts.push_back(vocabulary.encode_prompt(text));
    const auto length = std::ssize(prompts.back());
    const std::string name =
        texts.size() == 1 && before == 0 ? "the prompt" : "prompt " + std::to_string(before + prompts.size());
    require(!text.empty() && length > 0, [&] { return name + " is empty"; });
    require(context - length >= request.tokens.value_or(1), [&] {
      return (request.tokens ? "--tokens " + std::to_string(*request.tokens) + ": " : "") + name + " has " +
             counted(length, "token") + ", and the model's context is " + std::to_string(context);
    });
  }
  return prompts;
}

using Encoded = std::vector<models::Tokens>;

/// Writes texts by a program, which keeps no keys and values: each token computes all before it again.
Encoded written_by_program(const Trainer& trainer, const DecoderProgram& task, const Encoded& prompts,
                           const models::GenerateOptions& options, int64_t context,
                           const std::function<void(size_t, int64_t)>& each) {
  constexpr int64_t kTokensUnlessAsked = 100;
  Encoded written;
  for (size_t i = 0; i < prompts.size(); ++i) {
    models::Tokens tokens = prompts[i];
    models::Tokens& ours = written.emplace_back();
    const int64_t most = options.tokens.value_or(std::min(kTokensUnlessAsked, context - std::ssize(tokens)));
    while (std::ssize(ours) < most) {
      MicroBatch batch;
      batch.input = task.input_of(tokens).to(trainer.tensor().device());
      const at::Tensor scores = trainer.output(batch)[std::ssize(tokens) - 1].narrow(0, 0, options.pieces);
      std::optional<models::Sampling> sampling = options.sampling;
      if (sampling) sampling->sequence += static_cast<int64_t>(i);
      const int64_t token =
          sampling ? models::drawn_word(scores, *sampling, std::ssize(tokens)) : models::likeliest_word(scores);
      if (std::ranges::find(options.ends, token) != options.ends.end()) break;
      tokens.push_back(token);
      ours.push_back(token);
      each(i, token);
    }
  }
  return written;
}

}  // namespace

void generate(const GenerationRequest& request, const Readers& readers) {
  const SavedModel saved = open_model({request.model, request.step});
  const auto* task = dynamic_cast<const LanguageModelling*>(saved.task.get());
  require(task != nullptr, [&] {
    return "--model " + request.model + ": is a " + text_of("model", saved.configuration) +
           ", and only a decoder writes texts";
  });
  const data::TextVocabulary& vocabulary = task->vocabulary();
  const int64_t context = context_of(saved.configuration);
  const std::vector<models::Tokens> first = encoded(request.prompts, 0, request, vocabulary, context);
  const Configuration configuration = configured(saved, request);
  const auto* program = dynamic_cast<const DecoderProgram*>(task);
  require(!program || configuration.pp == 1, "--pp: a program writes by all its stages at once; --tp is for it");
  const models::TransformerOptions sizes = transformer_options(configuration, vocabulary.size());
  const Stages stages =
      stages_of(configuration, program ? task->segments() : models::decoder(sizes, configuration.tied_scores));
  models::GenerateOptions options{
      .tokens = request.tokens, .sampling = request.sampling, .ends = vocabulary.ends(), .pieces = vocabulary.size()};
  run_workers(configuration, [&](const Communicator& world) {
    const Grid grid(world, request.ranks.shape());
    const at::TensorOptions tensor = tensor_options(configuration, world);
    const WithOrder with_order(order_of(configuration));
    std::optional<Trainer> trainer;
    std::optional<models::Model> model;
    if (program) {
      trainer.emplace(load_trainer(saved, configuration, world));
    } else {
      model = model_here(stages, grid, tensor);
      saved.folder->read_weights(world, parameters_of(stages, *model, grid, tensor));
    }
    const bool is_lone = first.size() == 1 && readers.piece && world.rank() == 0;
    WholeCharacters characters(is_lone ? readers.piece : nullptr);
    if (is_lone) characters.add(request.prompts.front());
    const auto add = [&](size_t, int64_t token) { characters.add(vocabulary.bytes_of(token)); };
    const auto answer = [&](std::span<const std::string> texts, std::span<const models::Tokens> prompts,
                            size_t before) {
      for (size_t begin = 0; begin < texts.size(); begin += kTextsAtOnce) {
        const auto part = prompts.subspan(begin, std::min(kTextsAtOnce, texts.size() - begin));
        const std::vector<models::Tokens> now(part.begin(), part.end());
        models::GenerateOptions of_these = options;
        if (of_these.sampling) of_these.sampling->sequence = static_cast<int64_t>(before + begin);
        const auto written = trainer ? written_by_program(*trainer, *program, now, of_these, context, add)
                                     : models::generate(*model, sizes, now, of_these, add, grid.axis("pp"));
        for (size_t i = 0; readers.whole && world.rank() == 0 && i < now.size(); ++i) {
          WrittenText text{texts[begin + i], "", std::ssize(written[i])};
          for (const int64_t token : written[i]) text.continuation += vocabulary.bytes_of(token);
          readers.whole(text);
        }
      }
    };
    answer(request.prompts, first, 0);
    for (size_t answered = first.size(); request.more;) {
      const std::vector<std::string> texts = texts_of_root(world, request.more);
      if (texts.empty()) break;
      answer(texts, encoded(texts, answered, request, vocabulary, context), answered);
      answered += texts.size();
    }
    characters.end();
  });
}

}  // namespace adjoin::train
