#include "adjoin/models/generate.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include <memory>
#include <span>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/blocks.hpp"

namespace adjoin::models {
namespace {

void check_request(const DecoderOptions& model, const std::vector<int64_t>& prompt, const GenerateOptions& options) {
  const auto length = std::ssize(prompt);
  require(length > 0, "generate: expected a prompt of at least 1 token, got an empty one");
  for (const int64_t token : prompt)
    require(token >= 0 && token < model.words, [&] {
      return "generate: expected tokens from 0 to " + std::to_string(model.words - 1) + " in the prompt, got " +
             std::to_string(token);
    });
  require(options.tokens >= 1,
          [&] { return "generate: expected at least 1 token to write, got " + std::to_string(options.tokens); });
  require(options.tokens <= model.context - length, [&] {
    return "generate: expected a prompt and tokens of at most " + std::to_string(model.context) +
           " together, the context, got " + std::to_string(length) + " and " + std::to_string(options.tokens);
  });
  if (options.sampling) check(*options.sampling);
}

/// The scores of all words behind the last token of a text, of whose tokens the caches hold the first `past`.
/// Shape: [words], on every rank
at::Tensor scores_behind(const Model& model, const DecoderOptions& decoder, const std::vector<int64_t>& text,
                         int64_t past, std::span<nn::KeyValueCache> caches) {
  const auto length = std::ssize(text);
  const Rows rows = Rows::of_runs({{{0, {0, past}}}, {{0, {past, length}}}}, {length});
  const ForwardPass pass{.rows = past > 0 ? LocalRows(rows, 1) : LocalRows(rows.on_one_worker())};
  at::Tensor x = at::tensor(at::ArrayRef<int64_t>(text).slice(static_cast<size_t>(past)), at::kLong);
  const size_t head = model->segments().size() - 1;
  for (size_t i = 0; i < head; ++i) x = model->run(i, x, pass, caches.empty() ? nullptr : &caches[i]);
  // Of the last token alone: a pass of one row.
  const at::Tensor scores = model->run(head, x.narrow(0, x.size(0) - 1, 1), pass);
  const Communicator& group = model->stage().axis("tp");
  return gather_from(scores, group, Split::balanced(decoder.words, group.size(), 1)).squeeze(0);
}

}  // namespace

std::vector<int64_t> generate(const Model& model, const DecoderOptions& decoder, const std::vector<int64_t>& prompt,
                              const GenerateOptions& options, const std::function<void(int64_t token)>& each) {
  check_request(decoder, prompt, options);
  const at::NoGradGuard no_gradient;
  std::vector<nn::KeyValueCache> caches;
  if (options.caches) caches.assign(model->segments().size(), nn::KeyValueCache(std::ssize(prompt) + options.tokens));
  std::vector<int64_t> text = prompt;
  int64_t past = 0;  // tokens that the caches hold
  while (std::ssize(text) < std::ssize(prompt) + options.tokens) {
    const at::Tensor scores = scores_behind(model, decoder, text, past, caches);
    if (options.caches) past = std::ssize(text);
    const int64_t token =
        options.sampling ? drawn_word(scores, *options.sampling, std::ssize(text)) : likeliest_word(scores);
    if (token == options.end) break;
    text.push_back(token);
    if (each) each(token);
  }
  return {text.begin() + std::ssize(prompt), text.end()};
}

}  // namespace adjoin::models
