#include "adjoin/program/program.hpp"

#include <gmock/gmock.h>
#include <torch/optim/adamw.h>

#include <map>
#include <sstream>

#include "adjoin/base/error.hpp"
#include "adjoin/parallel/automatic.hpp"
#include "adjoin/parallel/distribute.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/pipeline/schedule.hpp"
#include "adjoin/program/description.hpp"
#include "adjoin/program/operators.hpp"
#include "adjoin/program/save_state.hpp"
#include "adjoin/program/stages.hpp"
#include "tests/program/cases.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/global_tensors.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::program {
namespace {

using namespace adjoin::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Whether a training pass, its gradients and buffers have PyTorch's bits.
void expect_trains_as_pytorch(Program& net, const Expected& expected) {
  torch::manual_seed(7);
  const parallel::Bundle results = net.run(as_values(expected.all("input")));
  const auto outputs = expected.all("output");
  ASSERT_EQ(results.size(), outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i)
    EXPECT_TRUE(at::equal(results.items()[i].tensor, outputs[i])) << "output " << i;
  const at::Tensor loss = loss_of(results);
  EXPECT_TRUE(at::equal(loss, expected["loss"]));
  loss.backward();
  for (const auto& item : net.named_parameters()) {
    const std::string name = "gradient." + item.key();
    ASSERT_EQ(item.value().grad().defined(), expected.contains(name)) << item.key();
    if (!expected.contains(name)) continue;
    EXPECT_TRUE(at::equal(item.value().grad(), expected[name])) << item.key();
  }
  for (const auto& item : net.named_buffers())
    EXPECT_TRUE(at::equal(item.value(), expected["buffer." + item.key()])) << item.key();
}

void expect_evaluates_as_pytorch(Program& net, const Expected& expected) {
  net.eval();
  const parallel::Bundle results = net.run(as_values(expected.all("input")));
  const auto outputs = expected.all("eval");
  ASSERT_EQ(results.size(), outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i)
    EXPECT_TRUE(at::equal(results.items()[i].tensor, outputs[i])) << "output " << i;
}

TEST(LoadProgram, has_the_bits_of_pytorch_in_training_and_in_eval_mode) {
  for (const std::string name : {"cnn", "mlp", "transformer", "modes", "path"}) {
    SCOPED_TRACE(name);
    const auto net = load_program(cases() / (name + ".pt2"));
    const Expected expected(cases() / (name + ".safetensors"));
    expect_trains_as_pytorch(*net, expected);
    expect_evaluates_as_pytorch(*net, expected);
  }
}

TEST(LoadProgram, finds_eval_mode_in_the_training_graph_where_it_shows_all) {
  for (const std::string name : {"cnn", "mlp", "transformer"}) {
    SCOPED_TRACE(name);
    const auto net = load_program(cases() / (name + "-plain.pt2"));
    const Expected expected(cases() / (name + ".safetensors"));
    expect_trains_as_pytorch(*net, expected);
    expect_evaluates_as_pytorch(*net, expected);
  }
  for (const auto& [name, why] :
       {std::pair("path", "aten.rand draws"), std::pair("modes", "writes to the buffer mean")}) {
    const auto net = load_program(cases() / (std::string(name) + "-plain.pt2"));
    const Expected expected(cases() / (std::string(name) + ".safetensors"));
    net->eval();
    const std::string error = thrown_by<InvalidArgument>([&] { net->run(as_values(expected.all("input"))); });
    EXPECT_THAT(error, HasSubstr(why));
    EXPECT_THAT(error, HasSubstr("adjoin.export_program"));
    net->train();
    expect_trains_as_pytorch(*net, expected);
  }
}

TEST(LoadProgram, has_the_names_of_python) {
  const auto net = load_program(cases() / "transformer.pt2");
  EXPECT_TRUE(net->named_parameters().contains("blocks.1.qkv.weight"));
  EXPECT_FALSE(net->named_parameters().contains("head.weight"));
  EXPECT_THAT(net->shared_names(), ElementsAre(std::pair<std::string, std::string>("head.weight", "words.weight")));
  EXPECT_EQ(net->inputs()[1].name, "mask");

  const auto modes = load_program(cases() / "modes.pt2");
  const parallel::Bundle results = modes->forward(at::ones({4, 6}));
  EXPECT_EQ(results["rest.1"].item<int64_t>(), 8);
  EXPECT_EQ(results["scores"].scalar_type(), at::kBFloat16);
  EXPECT_THAT(modes->passing_buffers(), ElementsAre("scale"));
}

TEST(LoadProgram, is_described) {
  const Description transformer = describe((cases() / "transformer.pt2").string());
  EXPECT_EQ(transformer.eval_mode, "a graph of its own");
  EXPECT_EQ(transformer.inputs[0].sizes.size(), 2u);
  EXPECT_EQ(transformer.outputs, std::vector<std::string>{""});
  const auto sdpa =
      std::ranges::find(transformer.operators, "aten.scaled_dot_product_attention", &Description::Operator::name);
  ASSERT_NE(sdpa, transformer.operators.end());
  EXPECT_EQ(sdpa->count, 2);
  EXPECT_EQ(sdpa->runs, "by a rule");
  EXPECT_EQ(describe((cases() / "path-plain.pt2").string()).eval_mode, "none: aten.rand draws random numbers");
}

/// The 86 operators of the graphs of 20 families, and how docs/programs.md says that each runs.
std::map<std::string, std::string> documented_operators() {
  std::istringstream page(test::contents_of(ADJOIN_SOURCE_DIR "/docs/programs.md"));
  std::map<std::string, std::string> found;
  for (std::string line; std::getline(page, line);)
    for (const std::string way : {"by a rule", "as its parts", "on every rank", "left out"})
      if (line.starts_with("| " + way + " |")) {
        std::istringstream names(line.substr(way.size() + 4));
        for (std::string name; names >> name;)
          if (name.starts_with("`")) found[name.substr(1, name.find('`', 1) - 1)] = way;
      }
  return found;
}

std::string full_name(const std::string& documented) {
  return "torch.ops.aten." + documented + (documented.find('.') == documented.npos ? ".default" : "");
}

TEST(LoadProgram, has_a_way_for_each_operator_that_its_page_lists) {
  const auto documented = documented_operators();
  EXPECT_EQ(documented.size(), 86u);
  for (const auto& [name, way] : documented)
    if (way != "left out" && !name.starts_with("sym_")) EXPECT_EQ(way_of(operator_named(full_name(name))), way) << name;
}

TEST(LoadProgram, tells_what_a_layout_would_move) {
  const std::string file = (cases() / "transformer.pt2").string();
  const FoundCuts tp = cuts_of(file, 1, 2), dp = cuts_of(file, 2, 1), none = cuts_of(file, 1, 1);
  EXPECT_EQ(tp.weights.size(), load_program(file)->named_parameters().size());
  const auto is_cut = [](const auto& one) { return !one.second.empty(); };
  EXPECT_GT(std::ranges::count_if(tp.weights, is_cut), 4);
  for (const auto& [name, cut] : tp.weights)
    EXPECT_FALSE(name.ends_with("bias") && cut.starts_with("inputs")) << name << ", which has no inputs";
  EXPECT_GT(tp.of_operations, 0);
  EXPECT_EQ(std::ranges::count_if(dp.weights, is_cut), 0);
  EXPECT_EQ(dp.inputs, (std::vector<std::string>{"samples over dp", "samples over dp"}));
  EXPECT_GT(dp.of_gradients, 0);
  EXPECT_EQ(none.of_operations + none.of_gradients, 0);
}

TEST(LoadProgram, refuses_inputs_before_anything_runs) {
  const auto cnn = load_program(cases() / "cnn-plain.pt2"), transformer = load_program(cases() / "transformer.pt2");
  const auto error = [](const auto& net, const auto&... inputs) {
    return thrown_by<InvalidArgument>([&] { net->forward(inputs...); });
  };
  const at::Tensor x = at::ones({4, 1, 8, 8}, at::kDouble), ids = at::ones({2, 5}, at::kLong);
  EXPECT_THAT(error(cnn, x, x), HasSubstr("expected 1 input (x), got 2"));
  EXPECT_THAT(error(cnn, at::ones({4, 1, 8, 9}, at::kDouble)),
              HasSubstr("dim 3 has 9, and it was exported for 8 alone"));
  EXPECT_THAT(error(cnn, x.to(at::kLong)), HasSubstr("expected Double [s"));
  EXPECT_THAT(error(cnn, x[0]), HasSubstr("got Double [1, 8, 8]"));
  EXPECT_THAT(error(cnn, int64_t{3}), HasSubstr("expected a tensor"));
  const std::string other = error(transformer, ids, at::ones({2, 6}, at::kLong));
  EXPECT_THAT(other, HasSubstr("input \"mask\": dim 1 has 6, and it is the same size as one of \"ids\", 5"));
  EXPECT_EQ(cnn->named_buffers()["body.1.num_batches_tracked"].item<int64_t>(), 0);
}

/// Runs a program on a grid: the loss and gradients must be those that `expected` has under names that begin with `mode`.
void expect_as_one_worker(const std::shared_ptr<Program>& net, const Expected& expected, const Grid& grid,
                          const parallel::Cuts& cuts, const std::string& mode = "") {
  const parallel::Distributed model(*net, grid, cuts);
  SCOPED_TRACE(grid.shape().to_string() + model.to_string());
  model.begin({.seed = 1, .number = 0, .training = true});
  const auto alike = model.draw_alike();
  std::vector<c10::IValue> inputs;
  for (const at::Tensor& input : expected.all("input")) inputs.emplace_back(model.input(input, inputs.size()));
  const at::Tensor loss = loss_of(net->run(inputs));
  EXPECT_LT(largest_error(whole(loss), expected[mode + "loss"]), 1e-12);
  loss.backward();
  for (const auto& item : net->named_parameters()) {
    const std::string name = mode + "gradient." + item.key();
    ASSERT_EQ(item.value().grad().defined(), expected.contains(name)) << item.key();
    if (!expected.contains(name)) continue;
    EXPECT_LT(largest_error(whole(item.value().grad()), expected[name]), 1e-12) << item.key();
  }
  if (!mode.empty()) return;
  for (const auto& item : net->named_buffers())
    EXPECT_LT(largest_error(whole(item.value()), expected["buffer." + item.key()]), 1e-12) << item.key();
}

parallel::Cuts found_cuts(Program& net, const Expected& expected, const Grid& grid, const parallel::CutText& cut) {
  const auto inputs = expected.all("input");
  parallel::AutomaticOptions options;
  for (size_t i = 0; i < inputs.size() && !cut.empty(); ++i) options.inputs.push_back({"", cut});
  parallel::CutSearch search(
      parallel::tensors_of(net), grid.shape(), inputs, [&] { net.run(as_values(inputs)); }, options);
  return search.best();
}

struct Laid {
  const char* name;
  std::vector<std::pair<std::string, parallel::CutText>> weights;
};
const Laid kLaid[] = {{"cnn", {{"body.0.*", "outputs over tp"}, {"head.weight", "inputs over tp"}}},
                      {"transformer",
                       {{"*.qkv.*", "outputs over tp in 3 parts by 4"},
                        {"*.out.weight", "inputs over tp by 4"},
                        {"*.up.*", "outputs over tp"},
                        {"*.down.weight", "inputs over tp"},
                        {"words.weight", "words over tp"}}}};

TEST(DistributedProgram, computes_what_one_worker_computes) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const auto folder = cases(world);
    for (const Laid& laid : kLaid) {
      SCOPED_TRACE(laid.name);
      const std::filesystem::path file = folder / (std::string(laid.name) + ".pt2");
      const Expected expected(folder / (std::string(laid.name) + ".safetensors"));
      const Grid tp(world, {{"tp", world.size()}}), dp(world, {{"dp", world.size()}});
      expect_as_one_worker(load_program(file), expected, tp, {laid.weights});
      expect_as_one_worker(load_program(file), expected, dp, {{}, {2, "samples over dp"}});
      const auto net = load_program(file);
      expect_as_one_worker(load_program(file), expected, tp, found_cuts(*net, expected, tp, "samples over tp"));
    }
  });
}

TEST(DistributedProgram, refuses_a_norm_of_one_number_as_pytorch_does) {
  for_each_world({1, 2}, [](const Communicator& world) {
    auto model = parallel::distribute(load_program(cases(world) / "mlp.pt2"), Grid(world, {{"dp", world.size()}}),
                                      {{}, {"samples over dp"}});
    const at::Tensor x = at::ones({1, 7});
    EXPECT_THAT(thrown_by<InvalidArgument>([&] { model.forward({.training = true}, x); }),
                HasSubstr("aten.batch_norm in norm: expected more than one number in each channel in training; the "
                          "input is [1, 12]"));
    model->eval();
    EXPECT_EQ(static_cast<const at::Tensor&>(model.forward({}, x)).size(0), 1);
  });
}

TEST(DistributedProgram, trains_by_modules_as_they_are) {
  for_each_world({2}, [](const Communicator& world) {
    const auto folder = cases(world);
    const auto net = load_program(folder / "transformer.pt2");
    const Expected expected(folder / "transformer.safetensors");
    auto model = parallel::distribute(net, Grid(world, {{"tp", world.size()}}), {kLaid[1].weights});
    torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(1e-2));
    std::vector<double> losses;
    for (int64_t number = 0; number < 3; ++number) {
      optimizer.zero_grad();
      const at::Tensor scores = model.forward({.seed = 1, .number = number}, expected["input.0"], expected["input.1"]);
      const at::Tensor loss = at::cross_entropy_loss(scores.flatten(0, 1), expected["input.0"].flatten());
      loss.backward();
      optimizer.step();
      losses.push_back(loss.item<double>());
    }
    EXPECT_LT(losses[2], losses[0]);
  });
}

TEST(DistributedProgram, trains_with_sharded_weights_as_one_worker_does) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const auto folder = cases(world);
    const Expected expected(folder / "transformer.safetensors");
    const at::Tensor ids = expected["input.0"], mask = expected["input.1"];
    auto model = parallel::distribute(load_program(folder / "transformer.pt2"), Grid(world, {{"dp", world.size()}}),
                                      {{}, {2, "samples over dp"}});
    auto alone = parallel::distribute(load_program(folder / "transformer.pt2"), Grid(Communicator(), {{"dp", 1}}), {});
    parallel::Optimizer of_model(model.shards(), parallel::adamw({.epsilon = 1e-3}), {.clip = 0.5});
    parallel::Optimizer of_alone(alone.trained(), parallel::adamw({.epsilon = 1e-3}), {.clip = 0.5});
    for (int64_t number = 0; number < 3; ++number) {
      const at::Tensor loss = loss_of(model.forward({.number = number}, ids, mask)),
                       one = loss_of(alone.forward({.number = number}, ids, mask));
      EXPECT_LT(largest_error(whole(loss), whole(one)), 1e-11);
      loss.backward();
      one.backward();
      EXPECT_NEAR(of_model.step(1e-2).norm, of_alone.step(1e-2).norm, 1e-11);
    }
  });
}

TEST(DistributedProgram, goes_back_to_python_under_all_its_names) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const test::TemporaryFolder own;
    const std::filesystem::path folder = text_from_rank(0, own.path().string(), world),
                                written = folder / "state.safetensors";
    for (const std::string name : {"transformer", "modes"}) {
      const std::filesystem::path file = cases(world) / (name + ".pt2");
      const auto net = load_program(file), plain = load_program(file);
      const parallel::Distributed model(*net, Grid(world, {{"tp", world.size()}}), {{{"*.weight", "outputs over tp"}}});
      save_state(*net, written);
      world.barrier();
      const train::SafetensorsFile state(written);
      for (const auto& item : plain->named_parameters()) EXPECT_TRUE(at::equal(state.read(item.key()), item.value()));
      EXPECT_EQ(state.contains("head.weight"), name == "transformer");
      EXPECT_EQ(state.contains("mean"), name == "modes");
      EXPECT_FALSE(state.contains("scale"));
      world.barrier();
    }
  });
}

/// A program in eval mode with the buffers that PyTorch's model had then.
std::shared_ptr<Program> evaluating(const std::filesystem::path& file, const Expected& expected) {
  auto net = load_program(file);
  net->eval();
  for (const auto& item : net->named_buffers()) item.value().copy_(expected["buffer." + item.key()]);
  return net;
}

/// In stages of a pipeline, in eval mode: the loss and the gradients of the weights of this rank.
void expect_stages_as_one_worker(const std::shared_ptr<Program>& net, const Expected& expected,
                                 const Communicator& world) {
  std::vector<parallel::Bundle::Item> inputs;
  for (const at::Tensor& input : expected.all("input")) inputs.push_back({std::to_string(inputs.size()), input});
  net->train();  // it is cut, and timed, as it trains
  parallel::Pipelined model(*net, stages(net, world.size(), world, as_values(expected.all("input"))),
                            Grid(world, {{"pp", world.size()}}), pipeline::make_schedule("1f1b", world.size(), 1));
  SCOPED_TRACE(model.to_string());
  net->eval();
  const double loss = model.run({.seed = 1}, {inputs}, [](int, const parallel::Bundle& out) { return loss_of(out); });
  EXPECT_LT(largest_error(at::scalar_tensor(loss, at::kDouble), expected["eval-loss"]), 1e-12);
  for (const auto& item : net->named_parameters()) {
    const std::string name = "eval-gradient." + item.key();
    if (!is_global(item.value()) || !expected.contains(name)) continue;
    EXPECT_LT(largest_error(whole(item.value().grad()), expected[name]), 1e-12) << item.key();
  }
}

/// Tiny models of families of transformers, of which the environment names those in `cases`; tools/check_deep exported.
TEST(ProgramFamilies, have_the_bits_of_pytorch_and_compute_the_same_in_layouts) {
  const char* names = std::getenv("ADJOIN_TEST_FAMILIES");
  if (names == nullptr) GTEST_SKIP() << "ADJOIN_TEST_FAMILIES names no families";
  const std::filesystem::path& folder = cases();
  std::istringstream list(names);
  for (std::string name; list >> name;) {
    SCOPED_TRACE(name);
    const auto net = load_program(folder / (name + ".pt2"));
    const auto documented = documented_operators();
    for (const Description::Operator& one : describe((folder / (name + ".pt2")).string()).operators)
      EXPECT_TRUE(!one.name.starts_with("aten.") || documented.contains(one.name.substr(5))) << one.name;
    expect_trains_as_pytorch(*net, Expected(folder / (name + ".safetensors")));
    expect_evaluates_as_pytorch(*net, Expected(folder / (name + ".safetensors")));
    const std::filesystem::path file = folder / (name + "-double.pt2");
    const Expected expected(folder / (name + "-double.safetensors"));
    for_each_world({2, 3}, [&](const Communicator& world) {
      for (const auto& [axis, cut] : {std::pair("tp", ""), std::pair("dp", "samples over dp")}) {
        const Grid grid(world, {{axis, world.size()}});
        const auto plain = evaluating(file, expected), mine = evaluating(file, expected);
        expect_as_one_worker(mine, expected, grid, found_cuts(*plain, expected, grid, cut), "eval-");
      }
      expect_stages_as_one_worker(evaluating(file, expected), expected, world);
    });
  }
}

}  // namespace
}  // namespace adjoin::program
