#include "adjoin/models/generate.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/movement/sent_tensors.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/nn/fixed/layers.hpp"

namespace adjoin::models {
namespace {

constexpr int64_t kTokensUnlessAsked = 100;

/// The most tokens that are written after a prompt.
int64_t most_tokens(const TransformerOptions& model, const Tokens& prompt, const GenerateOptions& options) {
  return options.tokens.value_or(std::min(kTokensUnlessAsked, model.context - std::ssize(prompt)));
}

void check_request(const TransformerOptions& model, const Tokens& prompt, const GenerateOptions& options) {
  const auto length = std::ssize(prompt);
  require(length > 0, "generate: expected a prompt of at least 1 token, got an empty one");
  for (const int64_t token : prompt)
    require(token >= 0 && token < model.words, [&] {
      return "generate: expected tokens from 0 to " + std::to_string(model.words - 1) + " in the prompt, got " +
             std::to_string(token);
    });
  const int64_t tokens = options.tokens.value_or(1);
  require(tokens >= 1, [&] { return "generate: expected at least 1 token to write, got " + std::to_string(tokens); });
  require(tokens <= model.context - length, [&] {
    return "generate: expected a prompt and tokens of at most " + std::to_string(model.context) +
           " together, the context, got " + std::to_string(length) + " and " + std::to_string(tokens);
  });
  if (options.sampling) check(*options.sampling);
}

constexpr int kRows = 0, kToken = 1;  // tags of messages

struct Text {
  Tokens tokens;
  int64_t longest = 0;  // its greatest length
  int64_t past = 0;     // number of tokens in the caches
  std::vector<nn::KeyValueCache> caches{};
  bool awaits_token = false;  // the last stage has chosen it or will choose it
  bool is_over = false;
};

/// Texts that take turns going through the model; the ranks of a group have its stages.
class Writer {
 public:
  Writer(const Model& model, const TransformerOptions& decoder, const std::vector<Tokens>& prompts,
         const GenerateOptions& options, const std::function<void(size_t, int64_t)>& each, const Communicator& stages)
      : model_(model), decoder_(decoder), prompts_(prompts), options_(options), each_(each), stages_(stages) {
    for (const Tokens& prompt : prompts) {
      Text& text = texts_.emplace_back(Text{.tokens = prompt});
      text.longest = std::ssize(prompt) + most_tokens(decoder, prompt, options);
      if (options.caches) text.caches.assign(model->segments().size(), nn::KeyValueCache(text.longest));
    }
  }

  std::vector<Tokens> run() {
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (size_t i = 0; i < texts_.size(); ++i) {
        take_turn(i);
        goes_on |= !texts_[i].is_over;
      }
    }
    sent_.wait();
    std::vector<Tokens> written;
    for (size_t i = 0; i < texts_.size(); ++i)
      written.emplace_back(texts_[i].tokens.begin() + std::ssize(prompts_[i]), texts_[i].tokens.end());
    return written;
  }

 private:
  bool is_last_stage() const { return stages_.rank() + 1 == stages_.size(); }

  void take_turn(size_t i) {
    Text& text = texts_[i];
    if (text.awaits_token) add(i, token_of_last_stage());
    if (text.is_over) return;
    sent_.drop_received();
    const at::Tensor output = pass(text);
    if (options_.caches) text.past = std::ssize(text.tokens);
    text.awaits_token = !is_last_stage();
    if (!is_last_stage()) return sent_.send(output, stages_, stages_.rank() + 1, kRows);
    const int64_t token =
        options_.sampling ? drawn_word(output, sampling_of(i), std::ssize(text.tokens)) : likeliest_word(output);
    for (int stage = 0; stage + 1 < stages_.size(); ++stage)
      sent_.send(at::full({1}, token, at::kLong), stages_, stage, kToken);
    add(i, token);
  }

  Sampling sampling_of(size_t i) const {
    Sampling sampling = *options_.sampling;
    sampling.sequence += static_cast<int64_t>(i);
    return sampling;
  }

  /// Runs this rank's segments on a text's new tokens. On the last stage it returns the scores of the next word, [words].
  at::Tensor pass(Text& text) {
    const auto length = std::ssize(text.tokens);
    const TokenRows rows = TokenRows::of_runs({{{0, {0, text.past}}}, {{0, {text.past, length}}}}, {length});
    const ForwardPass pass{.rows = text.past > 0 ? LocalTokenRows(rows, 1) : LocalTokenRows(rows.on_one_worker())};
    at::Tensor x = stages_.rank() == 0 ? ids_of(text) : rows_of_stage_before(length - text.past);
    const size_t blocks = model_->segments().size() - (is_last_stage() ? 1 : 0);
    const auto order = FixedOrder::current();
    const auto row_by_row = order ? std::make_shared<FixedOrder>(*order) : nullptr;
    if (row_by_row) row_by_row->row_by_row = true;
    std::optional<WithOrder> of_one_row;
    if (text.past > 0) of_one_row.emplace(row_by_row);
    for (size_t i = 0; i < blocks; ++i) x = model_->run(i, x, pass, text.caches.empty() ? nullptr : &text.caches[i]);
    if (!is_last_stage()) return x;
    // Only for the last token: a pass of one row.
    of_one_row.emplace(row_by_row);
    const at::Tensor scores = model_->run(blocks, x.narrow(0, x.size(0) - 1, 1), pass);
    const Communicator& group = model_->stage().axis("tp");
    const at::Tensor all =
        gather_from(scores, group, nn::fixed::cut_features(decoder_.words, group.size(), 1)).squeeze(0);
    return options_.pieces == 0 ? all : all.narrow(0, 0, options_.pieces);
  }

  at::TensorOptions tensor() const { return model_->parameters().front().options().requires_grad(false); }
  /// Of the tokens that have not been passed on.
  at::Tensor ids_of(const Text& text) const {
    const auto past = static_cast<size_t>(text.past);
    return at::tensor(at::ArrayRef<int64_t>(text.tokens).slice(past), at::kLong).to(tensor().device());
  }
  at::Tensor rows_of_stage_before(int64_t rows) const {
    at::Tensor x = at::empty({rows, decoder_.hidden}, tensor());
    stages_.recv(buffer(x), stages_.rank() - 1, kRows);
    return x;
  }
  int64_t token_of_last_stage() const {
    int64_t token = 0;
    stages_.recv({&token, 1, ElementType::int64}, stages_.size() - 1, kToken);
    return token;
  }
  void add(size_t i, int64_t token) {
    Text& text = texts_[i];
    text.awaits_token = false;
    text.is_over = std::ranges::find(options_.ends, token) != options_.ends.end();
    if (text.is_over) return;
    text.tokens.push_back(token);
    text.is_over = std::ssize(text.tokens) == text.longest;
    if (each_) each_(i, token);
  }

  const Model& model_;
  const TransformerOptions& decoder_;
  const std::vector<Tokens>& prompts_;
  const GenerateOptions& options_;
  const std::function<void(size_t, int64_t)>& each_;
  const Communicator stages_;
  std::vector<Text> texts_;
  SentTensors sent_;
};

}  // namespace

std::vector<Tokens> generate(const Model& model, const TransformerOptions& decoder, const std::vector<Tokens>& prompts,
                             const GenerateOptions& options, const std::function<void(size_t, int64_t)>& each,
                             const Communicator& stages) {
  for (const Tokens& prompt : prompts) check_request(decoder, prompt, options);
  const at::NoGradGuard no_gradient;
  return Writer(model, decoder, prompts, options, each, stages).run();
}

Tokens generate(const Model& model, const TransformerOptions& decoder, const Tokens& prompt,
                const GenerateOptions& options, const std::function<void(int64_t token)>& each) {
  return generate(model, decoder, std::vector<Tokens>{prompt}, options,
                  [&](size_t, int64_t token) {
                    if (each) each(token);
                  })
      .front();
}

}  // namespace adjoin::models
