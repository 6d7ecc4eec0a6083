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
at::Tensor scores_behind(const Decoder& model, const std::vector<Segment>& segments, const std::vector<int64_t>& text,
                         int64_t past) {
  const auto length = std::ssize(text);
  const Rows rows = Rows::of_runs({{{0, {0, past}}}, {{0, {past, length}}}}, {length});
  const StepContext context{.rows = std::make_shared<const Rows>(past > 0 ? rows : rows.on_one_worker()),
                            .worker = past > 0 ? 1 : 0};
  at::Tensor x = at::tensor(at::ArrayRef<int64_t>(text).slice(static_cast<size_t>(past)), at::kLong);
  for (const Segment& segment : std::span(segments).first(segments.size() - 1)) x = segment.forward(x, context);
  const at::Tensor scores = segments.back().forward(x.narrow(0, x.size(0) - 1, 1), context);
  return gather_from(scores, model->group(), model->words().along(1)).squeeze(0);
}

}  // namespace

std::vector<int64_t> generate(const Decoder& model, const std::vector<int64_t>& prompt, const GenerateOptions& options,
                              const std::function<void(int64_t token)>& each) {
  check_request(model->options(), prompt, options);
  const at::NoGradGuard no_gradient;
  std::vector<nn::KeyValueCache> caches(static_cast<size_t>(model->options().layers),
                                        nn::KeyValueCache(std::ssize(prompt) + options.tokens));
  const std::vector<Segment> segments = model->segments(options.caches ? &caches : nullptr);
  std::vector<int64_t> text = prompt;
  while (std::ssize(text) < std::ssize(prompt) + options.tokens) {
    const at::Tensor scores = scores_behind(model, segments, text, options.caches ? caches[0].tokens() : 0);
    const int64_t token =
        options.sampling ? drawn_word(scores, *options.sampling, std::ssize(text)) : likeliest_word(scores);
    if (token == options.end) break;
    text.push_back(token);
    if (each) each(token);
  }
  return {text.begin() + std::ssize(prompt), text.end()};
}

}  // namespace adjoin::models
