// Megatron's tensor and sequence parallelism, one piece at a time, with numbers small enough to follow: a product cut in two
// ways, the rows between two layers, heads, and dropout on split rows.

#include <ATen/ATen.h>

#include <sstream>

#include "adjoin/movement/mappings.hpp"
#include "adjoin/nn/dropout.hpp"
#include "adjoin/nn/linear.hpp"
#include "adjoin/nn/norm.hpp"
#include "adjoin/nn/sequence/self_attention.hpp"
#include "examples/support/example.hpp"

using namespace adjoin;

namespace {

/// [[50,60],[114,140]]
std::string text_of(const at::Tensor& matrix) {
  std::ostringstream text;
  text.precision(5);
  for (int64_t row = 0; row < matrix.size(0); ++row) {
    text << (row == 0 ? "[[" : ",[");
    for (int64_t column = 0; column < matrix.size(1); ++column)
      text << (column == 0 ? "" : ",") << matrix[row][column].item<double>();
    text << "]";
  }
  return text.str() + "]";
}

at::Tensor counted(int64_t rows, int64_t columns) {
  return at::arange(1, rows * columns + 1, at::kDouble).view({rows, columns});
}

/// This worker's part of the dim by a balanced Split.
at::Tensor part(const at::Tensor& whole, int64_t dim, const Communicator& world) {
  return take_block(whole, Split::balanced(whole.size(dim), world.size(), dim), world.rank());
}

void multiply(const Communicator& world, const example::Report& report) {
  const at::Tensor x = counted(3, 4), weight = counted(4, 2).t().contiguous();  // stored as in linear layers: [out, in]
  const at::Tensor expected = at::tensor({50., 60., 114., 140., 178., 220.}, at::kDouble).view({3, 2});
  report.line("X = %s", text_of(x).c_str());
  report.line("W = %s", text_of(weight.t()).c_str());
  report.line("Y = X W = %s", text_of(expected).c_str());

  // Row parallel: the inner dim is cut, each worker has a summand of all of Y.
  const at::Tensor summand = part(x, 1, world).mm(part(weight, 1, world).t());
  report.line("\nThe inner dim cut over %d workers: the first has the summand", world.size());
  report.line("  %s", text_of(summand).c_str());
  const at::Tensor sum = nn::row_parallel_linear(part(x, 1, world), part(weight, 1, world), {}, world);
  report.line("their sum is an all-reduce:\n  %s", text_of(sum).c_str());

  // Column parallel: the outputs are cut, each worker has some columns of Y.
  const Split columns = Split::balanced(2, world.size(), 0);
  const at::Tensor mine = nn::column_parallel_linear(x, part(weight, 0, world), {}, world);
  report.line("\nThe columns cut: the first worker has\n  %s", text_of(mine).c_str());
  const at::Tensor joined = gather_from(mine, world, columns.along(1));
  report.line("side by side they are an all-gather:\n  %s", text_of(joined).c_str());
  example::ensure(at::equal(sum, expected) && at::equal(joined, expected), "a product differs from the one by hand");

  // Sequence parallelism: the same sum, but each worker keeps only its rows of it.
  const Split rows = Split::balanced(3, world.size(), 0);
  const at::Tensor own = nn::row_parallel_linear(part(x, 1, world), part(weight, 1, world), {}, world, rows);
  report.line("\nThe sum by a reduce-scatter, which leaves each its rows; the first has");
  report.line("  %s", text_of(own).c_str());
  example::ensure(at::equal(own, part(expected, 0, world)), "rows of the sum differ from those by hand");
}

void normalise(const Communicator& world, const example::Report& report) {
  const at::Tensor x =
      at::tensor({2., 1., 4., 10., 10., 10., 100., 100., 100., 1000., 1000., 1000.}, at::kDouble).view({4, 3});
  const Grid grid(world, {{"tp", world.size()}});
  nn::ReplicatedNorm norm(nn::NormOptions{.features = 3, .split_rows = true, .tensor = at::kDouble}, grid, "tp");
  nn::initialize(*norm, /*seed=*/1);
  const at::Tensor mine = norm(part(x, 0, world)).detach();
  const at::Tensor all = gather_from(mine, world, Split::balanced(4, world.size(), 0));
  report.line("\nLayerNorm needs the features of a row alone, so its rows may be cut:");
  report.line("  %s", text_of((all * 1e4).round() / 1e4 + 0.0).c_str());
  const at::Tensor first = at::tensor({-0.2673, -1.0690, 1.3363}, at::kDouble);
  example::ensure(at::allclose(all[0], first, 0, 1e-4) && all.slice(0, 1).abs().max().item<double>() == 0,
                  "a norm differs from the one by hand");
}

/// The largest difference between this attention and that of one worker, relative to the largest number of the latter.
double attend(const Communicator& world) {
  constexpr int64_t kSamples = 64, kTokens = 120, kFeatures = 512;
  const ForwardPass pass{.rows = LocalTokenRows(TokenRows::balanced(std::vector<int64_t>(kSamples, kTokens), 1))};
  const at::Tensor x = at::linspace(0, 1000, kSamples * kTokens * kFeatures).sin().view({-1, kFeatures});
  const auto result = [&](const Grid& grid) {
    nn::ParallelSelfAttention attention(nn::SelfAttentionOptions{.hidden = kFeatures, .heads = 8}, grid, "tp");
    nn::initialize(*attention, /*seed=*/1);
    return attention(x, pass).detach();
  };
  const at::Tensor together = result(Grid(world, {{"tp", world.size()}}));
  const at::Tensor alone = result(Grid(Communicator(), {{"tp", 1}}));
  return ((together - alone).abs().max() / alone.abs().max()).item<double>();
}

void drop(const Communicator& world, const example::Report& report) {
  const ForwardPass pass{{.seed = 1, .training = true}, LocalTokenRows(TokenRows::balanced({4, 2}, 1))};  // two samples
  const at::Tensor x = at::ones({6, 5}, at::kDouble);
  const ForwardPass here{pass.step, rows_of_rank(pass.rows, world)};
  const at::Tensor mine = nn::dropout(part(x, 0, world), 0.5, {"example", 0}, here);
  const at::Tensor all = gather_from(mine, world, Split::balanced(6, world.size(), 0));
  report.line("\nDropout of ones: a mask follows from seed, sample and token, so the rows of");
  report.line("all workers together have that of one:\n  %s", text_of(all).c_str());
  example::ensure(at::equal(all, nn::dropout(x, 0.5, {"example", 0}, pass)), "a mask differs from that of one worker");
}

void walk_through(const Communicator& world, example::Report& report) {
  multiply(world, report);
  normalise(world, report);
  const double off = attend(world);
  report.line("\n8 heads of [64, 120, 512], some on each worker: off one worker's result by");
  report.line("%.1e of its largest number", off);
  example::ensure(off < 1e-5, "attention differs from that of one worker");
  drop(world, report);
  report.value("attention_difference", off);
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, {"Megatron's tensor and sequence parallelism, one piece at a time.", /*ranks=*/2},
                      walk_through);
}
