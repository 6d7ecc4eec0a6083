#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

#include "adjoin/models/model.hpp"
#include "adjoin/models/trunk.hpp"
#include "adjoin/movement/peak_memory.hpp"
#include "adjoin/movement/recompute.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::models {
namespace {

using namespace adjoin::testing;

// Of a block: h features, a heads, in float32; and one sample of s tokens a batch of b.
constexpr int64_t kHidden = 512, kHeads = 8, kTokens = 2048, kSamples = 1;

struct Case {
  std::string recompute;
  int cp, tp;
  bool sp;
  nn::AttentionMethod method;
  double dropout;  ///< of attention's probabilities
};

/// Bytes that a block keeps of its forward pass on this rank.
int64_t measured(const Case& of, const Communicator& world) {
  const Grid grid(world, {{"cp", of.cp}, {"tp", of.tp}});
  TransformerBlockOptions options{.name = "block",
                                  .attention = {.hidden = kHidden, .heads = kHeads, .dropout = of.dropout},
                                  .feed_forward = nn::feed_forward(kHidden),
                                  .dropout = 0.1,
                                  .rows = {.split = of.sp,
                                           .axis = of.cp > 1 ? "cp" : "",
                                           .method = of.method,
                                           .recompute_attention = of.recompute == "attention"}};
  const int rank = grid.coordinate("cp");
  const LocalTokenRows here(TokenRows::balanced(std::vector<int64_t>(kSamples, kTokens), of.cp), rank);
  const ForwardPass pass{{.training = true}, here};
  const int64_t between = options.rows.between_layers(here, grid.axis("tp")).size();
  const auto make = [&](const Grid& stage, const at::TensorOptions&) {
    return TransformerBlock(options, stage, "tp").ptr();
  };
  std::vector<Segment> segments{segment<TransformerBlockImpl>(
      "block", make, [](auto& block, const at::Tensor& in, const ForwardPass& p) { return block.forward(in, p); })};
  segments[0].recomputes = of.recompute == "segment";
  Model model(segments, grid);
  nn::initialize(*model, 1);
  const PeakMemory memory;
  const at::Tensor x = at::ones({between, kHidden}).requires_grad_(true);
  const int64_t before = memory.current_bytes() - x.nbytes();
  const at::Tensor y = model(x, pass);
  return memory.current_bytes() - before - static_cast<int64_t>(y.nbytes());  // y is the next block's input
}

/// By the formulas of docs/sequence-parallelism.md, with e = 4.
double formula(const Case& of) {
  const double sbh = static_cast<double>(kTokens * kSamples * kHidden) / of.cp, t = of.tp;
  if (of.recompute == "segment") return 4 * sbh / (of.sp ? t : 1);
  double bytes = of.sp ? 16 * 4 * sbh / t : 4 * sbh * (4 + 12 / t);
  const double scores =
      static_cast<double>(kHeads) * kTokens * kSamples / kHidden / t;  // a s / (h t), of all samples' keys
  if (of.method == nn::AttentionMethod::gathered && of.recompute == "none")
    bytes += (of.dropout > 0 ? 8 : 4) * sbh * scores;
  return bytes;
}

TEST(ActivationBytes, of_a_block_are_those_of_the_formulas) {
  using nn::AttentionMethod;
  const Case cases[] = {
      {"none", 1, 1, false, AttentionMethod::ring, 0},
      {"segment", 1, 1, false, AttentionMethod::ring, 0},
      {"none", 1, 2, false, AttentionMethod::ring, 0},
      {"none", 1, 2, true, AttentionMethod::ring, 0},
      {"segment", 1, 2, true, AttentionMethod::ring, 0},
      {"none", 2, 1, false, AttentionMethod::ring, 0},
      {"none", 2, 1, false, AttentionMethod::ulysses, 0},
      {"none", 2, 1, false, AttentionMethod::gathered, 0},
      {"none", 2, 1, false, AttentionMethod::gathered, 0.1},
      {"attention", 2, 1, false, AttentionMethod::gathered, 0.1},
      {"segment", 2, 1, false, AttentionMethod::gathered, 0},
      {"none", 2, 2, true, AttentionMethod::ring, 0},
  };
  constexpr const char* kMethods[] = {"ring", "gathered", "ulysses"};
  for (const Case& of : cases)
    for_each_world({of.cp * of.tp}, [&](const Communicator& world) {
      if (world.size() != of.cp * of.tp) return;
      const auto found = static_cast<double>(measured(of, world));
      const double expected = formula(of);
      char line[160];
      std::snprintf(line, sizeof line, "%-9s cp %d tp %d%s %-8s dropout %.1f: measured %6.1f MiB, formula %6.1f MiB\n",
                    of.recompute.c_str(), of.cp, of.tp, of.sp ? " sp" : "   ", kMethods[static_cast<size_t>(of.method)],
                    of.dropout, found / (1 << 20), expected / (1 << 20));
      if (world.rank() == 0) std::fputs(line, stdout);
      EXPECT_NEAR(found / expected, 1, expected > 25e6 ? 0.1 : 0.25) << line;
    });
}

}  // namespace
}  // namespace adjoin::models
