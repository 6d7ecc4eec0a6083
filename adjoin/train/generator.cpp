#include "adjoin/train/generator.hpp"

#include <algorithm>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/train/storage/saved_model.hpp"
#include "adjoin/train/text/language_modelling.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {
namespace {

constexpr int64_t kTokensUnlessAsked = 100;  // unless a request says how many

/// Hands bytes on when they are whole characters.
class WholeCharacters {
 public:
  explicit WholeCharacters(std::function<void(std::string_view)> write) : write_(std::move(write)) {}

  void add(std::string_view bytes) {
    pending_ += bytes;
    const size_t whole = pending_.size() - unfinished();
    if (whole > 0) write_(std::string_view(pending_).substr(0, whole));
    pending_.erase(0, whole);
  }
  /// What has not become a character.
  void end() {
    if (!pending_.empty()) write_(std::exchange(pending_, ""));
  }

 private:
  /// The bytes at the end that may be the beginning of a character.
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

}  // namespace

void generate(const GenerationRequest& request, const std::function<void(std::string_view text)>& write) {
  const SavedModel saved = open_model(request.model);
  const auto* task = dynamic_cast<const LanguageModelling*>(saved.task.get());
  require(task != nullptr, [&] {
    return "--model " + request.model + ": is a " + saved.configuration.model + ", and only a decoder writes texts";
  });
  const data::TextVocabulary& vocabulary = task->vocabulary();
  const std::vector<int64_t> prompt = vocabulary.encode(request.prompt);
  require(!prompt.empty(), "the prompt is empty");
  const auto room = saved.configuration.sequence - std::ssize(prompt);
  require(room >= request.tokens.value_or(1), [&] {
    return (request.tokens ? "--tokens " + std::to_string(*request.tokens) + ": " : "") + "the prompt has " +
           std::to_string(prompt.size()) + " tokens, and the model's context is " +
           std::to_string(saved.configuration.sequence);
  });
  const Configuration configuration = configured(saved, request);
  const models::GenerateOptions options{.tokens = request.tokens.value_or(std::min(kTokensUnlessAsked, room)),
                                        .sampling = request.sampling,
                                        .end = vocabulary.end_of_document()};
  run_workers(worker_options(configuration), [&](const Communicator& world) {
    const models::DecoderOptions sizes = LanguageModelling::model_options(configuration, vocabulary.size());
    const Grid grid(world, request.grid.shape());
    const models::Model model(models::decoder(sizes), grid.at("pp", 0), tensor_options(configuration));
    read_weights(saved, world, parameters_of(model));
    WholeCharacters characters([&](std::string_view text) {
      if (world.rank() == 0) write(text);
    });
    characters.add(request.prompt);
    models::generate(model, sizes, prompt, options, [&](int64_t token) { characters.add(vocabulary.bytes_of(token)); });
    characters.end();
  });
}

}  // namespace adjoin::train
