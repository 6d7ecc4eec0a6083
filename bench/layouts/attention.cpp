#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <memory>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/nn/sequence/attention.hpp"
#include "bench/layouts/command.hpp"

namespace adjoin::bench {
namespace {

using nn::AttentionMethod;

constexpr std::string_view kMethodNames[] = {"ring", "ulysses", "gathered", "local"};
constexpr std::optional<AttentionMethod> kMethods[] = {AttentionMethod::ring, AttentionMethod::ulysses,
                                                       AttentionMethod::gathered, std::nullopt};

struct AttentionOptions {
  SideBySideOptions run;
  std::optional<AttentionMethod> method = AttentionMethod::ring;  // none: LibTorch's, on one worker
  bool causal = false;
  double dropout = 0;
  int64_t length = 8192, heads = 4, size = 64;  // T rows in total, and the size of a head
};

using Attend = std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)>;

/// Attention on random queries, keys and values.
Pass pass_of_attention(const Attend& attend, at::IntArrayRef shape) {
  const at::Tensor q = at::randn(shape).requires_grad_(), k = at::randn(shape).requires_grad_();
  const at::Tensor v = at::randn(shape).requires_grad_(), gradient = at::randn(shape);
  const auto result = std::make_shared<at::Tensor>();
  return {[=] { *result = attend(q, k, v); }, [=] { torch::autograd::grad({*result}, {q, k, v}, {gradient}); }};
}

Pass pass_of_method(const AttentionOptions& options, const Communicator& world) {
  const TokenRows rows = options.causal ? TokenRows::zigzag({options.length}, world.size())
                                        : TokenRows::balanced({options.length}, world.size());
  const nn::AttentionOptions how{.method = *options.method,
                                 .causal = options.causal,
                                 .dropout = options.dropout,
                                 .name = "bench",
                                 .step = {.training = true}};
  const Attend attend = [=](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    return nn::attention(q, k, v, rows, world, how);
  };
  return pass_of_attention(attend, {rows.size(world.rank()), options.heads, options.size});
}

Pass pass_of_libtorch(const AttentionOptions& options) {
  const Attend attend = [causal = options.causal](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    return at::scaled_dot_product_attention(q, k, v, {}, /*dropout_p=*/0.0, causal);
  };
  return pass_of_attention(attend, {1, options.heads, options.length, options.size});
}

/// Times attention of one sample with split rows, forward and backward, in float32, beside LibTorch's own on one worker, which
/// has no dropout. With a causal mask or dropout, also beside the same method without either.
Comparison bench_attention(const AttentionOptions& options) {
  const auto pass = [](const AttentionOptions& asked) {
    return [asked](const Communicator& world) {
      return asked.method ? pass_of_method(asked, world) : pass_of_libtorch(asked);
    };
  };
  AttentionOptions local = options, plain = options;
  local.method = {};
  plain.causal = false;
  plain.dropout = 0;
  std::vector<Entrant> entrants{{"attention", pass(options)}, {"one worker, all threads", pass(local), true}};
  if (options.causal || options.dropout > 0) entrants.push_back({"neither causal nor dropped", pass(plain)});
  return side_by_side(options.run, {entrants}).front();
}

void run_attention(Command<AttentionOptions>& c) {
  c.method = kMethods[check_choice("--method", c.word, kMethodNames)];
  if (!c.method) {
    require(mpi_job_size() == 1,
            [] { return "--method local takes one rank, the MPI job has " + std::to_string(mpi_job_size()); });
    if (c.app->count("--ranks") == 0) c.ranks() = 1;
  }
  check_product({{"--length", c.length}, {"--heads", c.heads}, {"--dim", c.size}}, kMost);
  require(c.dropout >= 0 && c.dropout < 1,
          [&] { return "--dropout is " + shortest_text(c.dropout) + ", expected 0 or more and less than 1"; });
  require(c.method || c.ranks() == 1,
          [&] { return "--ranks is " + std::to_string(c.ranks()) + ", expected 1 for --method local"; });
  require(c.method || c.dropout == 0, "--dropout is given, but --method local has none");
  const Comparison result = bench_attention(c);
  if (!prints()) return;
  Report report{c.json};
  report.text << text_of(c.word, result);
  report.json = with_measured({{"method", c.word},
                               {"ranks", c.ranks()},
                               {"length", c.length},
                               {"heads", c.heads},
                               {"dim", c.size},
                               {"causal", c.causal},
                               {"dropout", c.dropout}},
                              result);
  if (result.results.size() > 2)
    report.json.update({{"plain_seconds", result.results[2].both}, {"plain_ratio", result.results[2].ratio}});
  report.print();
}

}  // namespace

void add_attention(Program& program) {
  const auto c = std::make_shared<Command<AttentionOptions>>();
  c->word = "ring";
  add_bench(program, "attention", "Time attention over a split sequence, and on one worker", c, run_attention,
            {text("--method", c->word, "ring|ulysses|gathered|local",
                  "How ranks get each other's keys and values; local: LibTorch's attention on one worker"),
             flag("--causal", c->causal, "Hide the keys of later tokens"),
             number("--dropout", c->dropout, "Dropout of the attention probabilities"),
             number("--length", c->length, "Tokens of all ranks, T"), number("--heads", c->heads, "Heads"),
             number("--dim", c->size, "Features of a head")})
      ->footer(
          "One sample of float32. One worker's is LibTorch's scaled_dot_product_attention, without dropout. With "
          "--causal or --dropout the method without either takes turns too: plain_seconds, plain_ratio.");
}

}  // namespace adjoin::bench
