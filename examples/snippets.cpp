// The code that the pages in docs/ quote, where no other example has it. tests/tools/pages_test.py compares them.

#include <ATen/ATen.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "adjoin/lab/timeline.hpp"
#include "adjoin/lab/trace/trace.hpp"
#include "adjoin/linalg/matmul.hpp"
#include "adjoin/nn/distributed/class_loss.hpp"
#include "adjoin/nn/distributed/conv.hpp"
#include "adjoin/nn/distributed/experts.hpp"
#include "adjoin/nn/distributed/network.hpp"
#include "adjoin/nn/distributed/pool.hpp"
#include "adjoin/nn/distributed/weighted.hpp"
#include "adjoin/nn/init.hpp"
#include "adjoin/nn/sequence/dot_product_attention.hpp"
#include "adjoin/parallel/automatic.hpp"
#include "adjoin/parallel/data_parallel.hpp"
#include "adjoin/parallel/distribute.hpp"
#include "adjoin/parallel/gradients.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/parallel/pipelined.hpp"
#include "examples/support/example.hpp"

using namespace adjoin;

namespace {

void memory_of_a_host(const Communicator& world) {
  constexpr int64_t count = 8192;

  const std::shared_ptr<void> memory = host_memory(count * sizeof(float));
  world.all_reduce(Buffer{memory.get(), count, ElementType::float32});
}

void collectives(const Communicator& world) {
  std::vector<float> x(8192, 1);

  const Communicator group = world.with_algorithm(Collective::all_reduce, "ring");
  group.all_reduce(buffer(x));    // in 2 (P - 1) steps around the ring
  group.broadcast(buffer(x), 0);  // as before: only all_reduce was chosen

  const Communicator pieces = world.with_algorithm(Collective::broadcast, "ring", /*chunk=*/4096);
  const Communicator quickest = world.with_algorithm(Collective::all_reduce, "auto");

  pieces.broadcast(buffer(x), 0);
  quickest.all_reduce(buffer(x));
}

void begin_now_wait_later(const Communicator& world) {
  std::vector<float> x(8192, 1), mine(100);

  const std::unique_ptr<Pending> sum = world.begin().all_reduce(buffer(x));
  std::iota(mine.begin(), mine.end(), 0);  // beside the sum
  sum->wait();                             // or its destructor

  example::ensure(x.front() == static_cast<float>(world.size()), "the sum is wrong");
}

void products(const Communicator& group) {
  const int64_t T = 100;
  const at::Tensor all = at::linspace(0, 9, T * 16, at::kDouble).sin().view({T, 16});
  const Split mine = Split::balanced(T, group.size(), 0);
  const at::Tensor keys = all.narrow(0, mine.offset(group.rank()), mine.size(group.rank()));
  const at::Tensor queries = keys, inputs = keys;

  const Split rows = Split::balanced(T, group.size(), 0);
  const at::Tensor scores = linalg::matmul_nt(keys, queries, group, rows, /*chunk=*/32);
  const at::Tensor values = linalg::matmul_nn(scores.softmax(-1), inputs, group, rows, 32);

  const at::Tensor expected = at::matmul(at::matmul(keys, all.t()).softmax(-1), all);
  example::ensure(at::allclose(values, expected), "the product differs from one worker's");
}

void attention(const Communicator& world) {
  const nn::DotProductAttentionOptions options{.key_dim = 8, .value_dim = 8, .query_dim = 8, .num_heads = 2};
  const Split rows = Split::balanced(11, world.size(), /*dim=*/1);
  const int64_t here = rows.size(world.rank());
  const at::Tensor keys = at::ones({1, here, 8}), queries = keys, values = keys;
  const at::Tensor mask = at::zeros({1, here, 11}, at::kBool);

  nn::DistributedDotProductAttention attention(options, Grid(world, {{"sp", world.size()}}), "sp");
  const at::Tensor out = attention(keys, queries, values, mask, rows);  // [*, T_i, features], mask [1, T_i, T]

  example::ensure(out.size(1) == here, "attention gave other rows");
}

parallel::Rule adagrad(double epsilon) {
  return {"adagrad", {"sum"}, [epsilon](const parallel::FlatPiece& piece, const parallel::UpdateStep& step) {
            const at::Tensor gradient = piece.gradient.add(piece.value, step.decay);
            piece.moments[0].addcmul_(gradient, gradient);
            piece.value.addcdiv_(gradient, piece.moments[0].sqrt().add_(epsilon), -step.rate);
          }};
}

void layers(const Communicator& world) {
  const auto [height, width] = example::nearly_square(world.size());
  const int64_t batch = 2;
  const at::Tensor pictures = at::linspace(0, 9, batch * 3 * 32 * 32).sin().view({batch, 3, 32, 32});

  const Grid grid(world, {{"y", height}, {"x", width}});  // on 4 workers 2 and 2
  const nn::LayoutRule over_space = nn::balanced_over(grid.shape(), {{}, {}, {"y"}, {"x"}});
  const DistributedTensor x = place(pictures, over_space({batch, 3, 32, 32}), grid);  // each worker keeps its part

  nn::Conv2d conv(nn::Conv2dOptions(3, 8, 5).padding(2), grid);  // the weight is copied along y and x
  nn::MaxPool2d pool(nn::MaxPool2dOptions(2), grid);
  nn::initialize(*conv, /*seed=*/1);          // or one parameter: nn::init::kaiming_uniform_(parameter, seed)
  const DistributedTensor y = pool(conv(x));  // [batch, 8, 16, 16], each worker has its part of space
}

void network(const Communicator& world) {
  const auto [height, width] = example::nearly_square(world.size());
  const Grid grid(world, {{"y", height}, {"x", width}});
  const nn::LayoutRule over_space = nn::balanced_over(grid.shape(), {{}, {}, {"y"}, {"x"}});
  const DistributedTensor x = place(at::ones({2, 3, 32, 32}), over_space({2, 3, 32, 32}), grid);
  const DistributedTensor labels = place(at::zeros({2}, at::kLong), nn::layout_copied_on(grid.shape(), {2}), grid);

  torch::nn::Sequential model(torch::nn::Conv2d(3, 8, 5), torch::nn::ReLU(), torch::nn::Flatten(),
                              torch::nn::Linear(6272, 10));
  nn::Sequential net = nn::distributed(model, {.grid = grid, .space = {{"y"}, {"x"}}});  // or .batch, .channels, or all
  const DistributedTensor scores = net(x);

  nn::CrossEntropyLoss loss(nn::CrossEntropyLossOptions().label_smoothing(0.1), grid);
  const DistributedTensor value = loss(scores, labels);
  value.local.sum().backward();  // on all workers; a worker that holds no value gives zero

  parallel::Optimizer optimizer(nn::parameters_of(*net), adagrad(1e-10), {.weight_decay = 0.01, .clip = 1});
  optimizer.step(/*learning_rate=*/0.01);
}

void data_parallel(const Communicator& world) {
  torch::nn::Linear net(4, 2);
  parallel::DataParallel data(*net, world);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  std::vector<at::Tensor> batches(static_cast<size_t>(world.rank()), at::ones({3, 4}));
  const at::Tensor a = at::ones({2, 4}), b = at::ones({1, 4});
  {
    data.backward(net->forward(a).square().mean(), a.size(0), {.last = false});
    data.backward(net->forward(b).square().mean(), b.size(0));
  }
  optimizer.zero_grad();
  while (data.any(!batches.empty())) {
    const bool has_batch = !batches.empty();
    const at::Tensor x = has_batch ? batches.back() : at::Tensor();
    data.backward(has_batch ? net->forward(x).square().mean() : at::Tensor(), has_batch ? x.size(0) : 0);
    if (has_batch) batches.pop_back();
    optimizer.step();
    optimizer.zero_grad();
  }
}

void any_module(const Communicator& world) {
  torch::nn::Linear net(4, 6);
  auto model = parallel::distribute(net.ptr(), Grid(world, {{"tp", world.size()}}), {{{"weight", "outputs over tp"}}});
  parallel::Optimizer optimizer(model.trained(), parallel::adamw(), {.weight_decay = 0.1, .clip = 1, .zero = 2});
  model.forward({}, at::ones({3, 4})).square().mean().backward();
  optimizer.step(/*learning_rate=*/1e-3);
}

void automatic(const Communicator& world) {
  const torch::nn::Sequential net(torch::nn::Linear(64, 256), torch::nn::GELU(), torch::nn::Linear(256, 64));
  const at::Tensor x = at::ones({32, 64});
  const Grid grid(world, {{"tp", world.size()}});

  const parallel::Cuts cuts = parallel::automatic(net.ptr(), grid.shape(), {.inputs = {{"", "samples over tp"}}}, x);
  const std::string text = to_string(cuts);  // to read, edit and paste
  auto model = parallel::distribute(net.ptr(), grid, cuts);
}

struct Block : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x, const at::Tensor& mask) { return x + linear(x).tanh() * mask; }
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(4, 4));
};

struct Blocks : torch::nn::Module {
  Blocks() {
    for (int i = 0; i < 4; ++i) blocks->push_back(std::make_shared<Block>());
  }
  torch::nn::Embedding table = register_module("table", torch::nn::Embedding(10, 4));
  torch::nn::ModuleList blocks = register_module("blocks", torch::nn::ModuleList());
  torch::nn::Linear head = register_module("head", torch::nn::Linear(4, 10));
};

void module_in_a_pipeline(const Communicator& world) {
  using parallel::Bundle;
  const auto net = std::make_shared<Blocks>();
  const std::vector<Bundle> micro_batches(2, {{"ids", at::arange(6)}, {"mask", at::ones({6, 1})}});
  const Step step;

  std::vector<parallel::Child> children = parallel::children_of<Block>(
      "blocks", net->blocks,
      [](Block& block, const Bundle& in) { return in.with("x", block.forward(in["x"], in["mask"])); });
  children.insert(children.begin(), {"table", [&](const Bundle& in) { return in.with("x", net->table(in["ids"])); }});
  children.push_back({"head", [&](const Bundle& in) { return in.with("x", net->head(in["x"])); }});

  const Grid grid(world, {{"pp", world.size()}});
  parallel::Pipelined model(*net, children, grid, pipeline::make_schedule("1f1b", world.size(), /*micro_batches=*/2));
  torch::optim::SGD optimizer(model.weights(), /*lr=*/0.1);
  const double loss = model.run(step, micro_batches, [](int, const Bundle& out) {
    return at::cross_entropy_loss(out["x"], out["ids"]) / 2;  // the mean of two micro-batches
  });
  optimizer.step();
  example::ensure(loss > 0, "there is no loss");
}

void experts_of_rows(const Communicator& world) {
  const int64_t samples = 6;
  const GridShape line({{"all", world.size()}});
  DistributedTensor x = place(at::linspace(0, 9, samples * 5 * 64).sin().view({samples, 5, 64}),
                              nn::balanced_over(line, {{"all"}, {}, {}})({samples, 5, 64}), Grid(world, line));

  const Grid grid(world, {{"ep", world.size()}, {"tp", 1}});
  nn::DistributedMixtureOfExperts experts(
      nn::MixtureOfExpertsOptions{
          .features = 64, .hidden_features = 256, .experts = 8, .top_k = 2, .balance_loss = 0.01, .experts_axis = "ep"},
      grid, "tp");
  nn::initialize(*experts, /*seed=*/1);
  x.step = Step{.training = true, .loss_share = 1.0 / samples};  // of all workers: what a sample counts in the loss
  const DistributedTensor y = experts(x);                        // x: [samples, tokens, 64]

  y.local.square().sum().backward();
  parallel::sum_gradients(*experts);
  example::ensure(experts->parameters().front().grad().count_nonzero().item<int64_t>() > 0,
                  "the router learns nothing");
}

void work(const Communicator& world) {
  std::vector<double> x(1000, 1);
  {
    const lab::TimeSlice slice("compute");
    for (double& number : x) number = number / 3 + 1;
  }
  world.all_reduce(buffer(x));
}

void tracing(const Communicator& world) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("adjoin-trace-" + std::to_string(::getpid()) + ".json.gz");

  lab::Trace trace(world);
  work(trace.world());
  trace.write(path);

  if (world.rank() == 0) example::ensure(std::filesystem::remove(path), "there is no trace");
}

void run_all(const Communicator& world, example::Report& report) {
  memory_of_a_host(world);
  collectives(world);
  begin_now_wait_later(world);
  products(world);
  attention(world);
  layers(world);
  network(world);
  data_parallel(world);
  any_module(world);
  automatic(world);
  module_in_a_pipeline(world);
  experts_of_rows(world);
  tracing(world);
  report.line("All of them ran.");
  report.value("ranks", static_cast<int64_t>(world.size()));
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, {"The code that the pages in docs/ quote."}, run_all);
}
