#include "tests/support/changed_movements.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "adjoin/movement/forward_record.hpp"
#include "adjoin/train/trainer.hpp"
#include "tests/support/random_task.hpp"

namespace adjoin::train {
namespace {

using namespace adjoin::testing;

/// The weights after a step of gradient descent.
Gradients step(Configuration c, const Communicator& world, const Trial& trial) {
  c.check_gradients = trial.checks;
  const auto task = random_task(c, 6, [](int64_t i) { return 5 + i; });
  Trainer trainer(c, *task, world);
  trainer.initialize();
  const ForwardRecord notes;  // so that a recomputed segment is changed forward as it is in backward
  const ReplacedMovements replaced(trial.replace);
  const StepResult result = trainer.step(all_samples(*task), 0, /*learning_rate=*/1);
  Gradients weights{.of_parameters = {}, .loss = at::scalar_tensor(result.loss, at::kDouble)};
  for (const nn::Parameter& parameter : trainer.parameters())
    weights.of_parameters.push_back(parameter.tensor.detach().clone());
  return weights;
}

Configuration of(const std::string& model) {
  Configuration c = configuration_of(model == "decoder" ? "gpt-tiny" : "tiny");
  set("model", model, c);
  c.precision = Precision::fp64;
  c.layers = 1;
  c.hidden = 12;
  c.heads = 6;  // ranks without a head would make other shapes of a movement that is left out
  c.vocabulary_size = 50;
  c.sequence = 12;
  c.batch = 6;
  c.optimizer = OptimizerRule::sgd;
  c.momentum = c.weight_decay = c.clip = 0;
  return c;
}

struct NamedLayout {
  std::string name;
  std::function<void(Configuration&)> set;
  bool quick = false;
};

const std::vector<NamedLayout>& layouts() {
  static const std::vector<NamedLayout> all = {
      {"tp", [](Configuration& c) { c.tp = 2; }, true},
      {"tp of 3 and dp", [](Configuration& c) { c.tp = 3, c.dp = 2; }},
      {"sp", [](Configuration& c) { c.tp = 2, c.sp = true; }, true},
      {"cp by a ring", [](Configuration& c) { c.cp = 2; }},
      {"cp gathered, with tp",
       [](Configuration& c) { c.cp = 2, c.tp = 2, c.cp_method = nn::AttentionMethod::gathered; }},
      {"cp by ulysses, with dp",
       [](Configuration& c) { c.cp = 2, c.dp = 2, c.cp_method = nn::AttentionMethod::ulysses; }},
      {"cp by ulysses, with sp",
       [](Configuration& c) { c.cp = 3, c.tp = 2, c.sp = true, c.cp_method = nn::AttentionMethod::ulysses; }},
      {"recompute of segments", [](Configuration& c) { c.tp = 2, c.recompute = Recompute::segment, c.layers = 2; },
       true},
      {"recompute of segments, with sp",
       [](Configuration& c) { c.tp = 2, c.sp = true, c.recompute = Recompute::segment; }},
      {"recompute of attention",
       [](Configuration& c) {
         c.cp = 2, c.cp_method = nn::AttentionMethod::gathered, c.recompute = Recompute::attention;
       }},
  };
  return all;
}

TEST(ChangedMovements, of_the_models_are_refused_by_the_first_step) {
  const bool is_deep = std::getenv("ADJOIN_TEST_SCALE") != nullptr;
  ChangesTried tried;
  for (const char* model : {"classifier", "decoder"})
    for (const char* pooling : {"mean", "cls"})
      for (const NamedLayout& layout : layouts()) {
        if (std::string(model) == "decoder" && std::string(pooling) == "cls") continue;
        if (!is_deep && (!layout.quick || std::string(pooling) == "cls")) continue;
        Configuration c = of(model);
        if (c.model == ModelKind::classifier) set("pooling", pooling, c);
        layout.set(c);
        try_changes(std::string(model) + ", " + pooling + ", " + layout.name,
                    [&](const Communicator& world, const Trial& trial) { return step(c, world, trial); },
                    {.ranks = static_cast<int>(c.dp * c.cp * c.tp), .by_line = c.recompute != Recompute::none},
                    {&tried, 1});
      }
  tried.report("models");
  EXPECT_GT(tried.wrong, 20);
  EXPECT_EQ(tried.refused, tried.wrong);
}

}  // namespace
}  // namespace adjoin::train
