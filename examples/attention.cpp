// Attention over a sequence that no worker holds whole: each of 4 has a quarter of its rows, and the module gives them what
// it gives on one worker.

#include <ATen/ATen.h>

#include "adjoin/movement/mappings.hpp"
#include "adjoin/nn/sequence/dot_product_attention.hpp"
#include "adjoin/parallel/gradients.hpp"
#include "examples/support/example.hpp"

using namespace adjoin;

namespace {

constexpr int64_t kLength = 1023, kKeyDim = 64, kQueryDim = 48;

/// The largest difference between `mine` and `alone`, relative to the largest element of one worker's whole result.
double difference(const at::Tensor& mine, const at::Tensor& alone, const at::Tensor& whole) {
  const at::Tensor off = (mine - alone).abs();
  return (off.numel() > 0 ? off.max().item<double>() : 0) / whole.abs().max().item<double>();
}

void attend(const Communicator& world, example::Report& report) {
  nn::DotProductAttentionOptions options{
      .key_dim = kKeyDim, .value_dim = kQueryDim, .query_dim = kQueryDim, .num_heads = 4, .tensor = at::kDouble};
  nn::DistributedDotProductAttention attention(options, Grid(world, {{"sp", world.size()}}), "sp");
  options.distributed = false;  // the same module on one worker; each worker here runs it alone
  nn::DistributedDotProductAttention alone(options, Grid(Communicator(), {{"sp", 1}}), "sp");
  nn::initialize(*attention, /*seed=*/1);
  nn::initialize(*alone, /*seed=*/1);

  const Split rows = Split::balanced(kLength, world.size(), /*dim=*/1), all_rows = Split::balanced(kLength, 1, 1);
  const auto waves = [](int64_t features) {  // any sequence will do
    return at::linspace(0, 50, kLength * features, at::kDouble).sin().view({1, kLength, features});
  };
  const at::Tensor keys = waves(kKeyDim), queries = waves(kQueryDim);
  const at::Tensor mask = at::ones({1, kLength, kLength}, at::kBool).triu(1);  // hides what comes later
  const auto mine = [&](const at::Tensor& whole) { return take_block(whole, rows, world.rank()).clone(); };

  const at::Tensor my_keys = mine(keys).requires_grad_(), all_keys = keys.clone().requires_grad_();
  const at::Tensor my_queries = mine(queries);
  const at::Tensor out = attention(my_keys, my_queries, my_queries, mine(mask), rows);
  const at::Tensor expected = alone(all_keys, queries, queries, mask, all_rows);
  out.square().sum().backward();  // each worker has its own rows' share of the sum
  expected.square().sum().backward();
  parallel::sum_gradients(*attention);

  const auto rows_off = [&](const at::Tensor& x, const at::Tensor& whole) { return difference(x, mine(whole), whole); };
  const at::Tensor weight = alone->named_parameters()["values.weight"].grad();
  double off[] = {rows_off(out, expected), rows_off(my_keys.grad(), all_keys.grad()),
                  difference(attention->named_parameters()["values.weight"].grad(), weight, weight)};
  world.all_reduce(buffer(off), Reduction::max);
  report.line("%ld rows on %d workers, %ld of them here", static_cast<long>(kLength), world.size(),
              static_cast<long>(rows.size(world.rank())));
  report.line("differs from one worker by %.1e,", off[0]);
  report.line("the gradient of the keys by %.1e, of a weight by %.1e", off[1], off[2]);
  example::ensure(off[0] <= 1e-12 && off[1] <= 1e-12 && off[2] <= 1e-12, "the workers together differ from one");
  report.value("output_difference", off[0]);
  report.value("gradient_difference", off[1]);
  report.value("weight_gradient_difference", off[2]);
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, {"Attention over a sequence that is split over workers."}, attend);
}
