#include "tests/support/changed_movements.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/movement/recompute.hpp"
#include "adjoin/train/trainer.hpp"
#include "tests/support/random_task.hpp"

namespace adjoin::train {
namespace {

using namespace adjoin::testing;

/// A movement of a model: the how manieth call of the forward pass, or all calls of one line where segments are computed again.
struct ChangedMovement {
  size_t call = 0;
  Change change = Change::skip;
  std::string other = {};
};

struct Outcome {
  bool runs = true, refused = false;
  std::vector<std::string> movements = {};            // by name and line, where none was changed
  std::vector<std::vector<at::Tensor>> weights = {};  // of each rank after a step of gradient descent
};

std::string place_of(const LinearMap& map) {
  const auto& where = CallSite::current();
  return std::string(map.kinds->name) + " " +
         (where ? std::string(where->file_name()) + ":" + std::to_string(where->line()) : "");
}

Outcome step(Configuration c, bool checks, const std::optional<ChangedMovement>& wrong,
             const std::vector<std::string>& movements) {
  c.check_gradients = checks;
  const auto task = random_task(c, 6, [](int64_t i) { return 5 + i; });
  Outcome outcome;
  const int ranks = static_cast<int>(c.dp * c.cp * c.tp);
  outcome.weights.resize(static_cast<size_t>(ranks));
  const auto work = [&](const Communicator& world) {
    Trainer trainer(c, *task, world);
    trainer.initialize();
    size_t call = 0;
    const bool by_place = c.recompute != "none";
    {
      const NotesOfRecomputed notes;  // so that a recomputed segment is changed forward as it is in backward
      const ReplacedMovements replaced([&](const LinearMap& map, const at::Tensor& x, const Communicator& workers) {
        if (!at::GradMode::is_enabled()) return apply(map, x, workers);  // an adjoint
        const std::string place = place_of(map);
        if (!wrong && world.rank() == 0) outcome.movements.push_back(place);
        const size_t now = call++;
        if (!wrong || (by_place ? place != movements[wrong->call] : now != wrong->call)) return apply(map, x, workers);
        return changed(wrong->change, wrong->other, map, x, workers);
      });
      trainer.step(all_samples(*task), 0, /*learning_rate=*/1);
    }
    for (const nn::Parameter& parameter : trainer.parameters())
      outcome.weights[static_cast<size_t>(world.rank())].push_back(parameter.tensor.detach().clone());
  };
  try {
    launch_threads(ranks, work);
  } catch (const std::exception& error) {
    outcome.refused = std::string(error.what()).find("gradients along") != std::string::npos;
    outcome.runs = outcome.refused;
  }
  return outcome;
}

bool differ(const Outcome& a, const Outcome& b) {
  for (size_t rank = 0; rank < a.weights.size(); ++rank)
    for (size_t i = 0; i < a.weights[rank].size(); ++i)
      if (!at::allclose(a.weights[rank][i], b.weights[rank][i], /*rtol=*/0, /*atol=*/1e-9)) return true;
  return false;
}

Configuration of(const std::string& model) {
  Configuration c = configuration_of(model == "decoder" ? "gpt-tiny" : "tiny");
  c.model = model;
  c.precision = Precision::fp64;
  c.layers = 1;
  c.hidden = 12;
  c.heads = 6;  // ranks without a head would make other shapes of a movement that is left out
  c.vocabulary_size = 50;
  c.sequence = 12;
  c.batch = 6;
  c.optimizer = "sgd";
  c.momentum = c.weight_decay = c.clip = 0;
  return c;
}

struct Layout {
  std::string name;
  std::function<void(Configuration&)> set;
  bool quick = false;
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      {"tp", [](Configuration& c) { c.tp = 2; }, true},
      {"tp of 3 and dp", [](Configuration& c) { c.tp = 3, c.dp = 2; }},
      {"sp", [](Configuration& c) { c.tp = 2, c.sp = true; }, true},
      {"cp by a ring", [](Configuration& c) { c.cp = 2; }},
      {"cp gathered, with tp", [](Configuration& c) { c.cp = 2, c.tp = 2, c.cp_method = "gathered"; }},
      {"cp by ulysses, with dp", [](Configuration& c) { c.cp = 2, c.dp = 2, c.cp_method = "ulysses"; }},
      {"cp by ulysses, with sp", [](Configuration& c) { c.cp = 3, c.tp = 2, c.sp = true, c.cp_method = "ulysses"; }},
      {"recompute of segments", [](Configuration& c) { c.tp = 2, c.recompute = "segment", c.layers = 2; }, true},
      {"recompute of segments, with sp", [](Configuration& c) { c.tp = 2, c.sp = true, c.recompute = "segment"; }},
      {"recompute of attention",
       [](Configuration& c) { c.cp = 2, c.cp_method = "gathered", c.recompute = "attention"; }},
  };
  return all;
}

TEST(ChangedMovements, of_the_models_are_refused_by_the_first_step) {
  const bool is_deep = std::getenv("ADJOIN_TEST_SCALE") != nullptr;
  int64_t wrong = 0, refused = 0, harmless = 0;
  std::map<std::string, int64_t> missed;
  for (const char* model : {"classifier", "decoder"})
    for (const char* pooling : {"mean", "cls"})
      for (const Layout& layout : layouts()) {
        if (std::string(model) == "decoder" && std::string(pooling) == "cls") continue;
        if (!is_deep && (!layout.quick || std::string(pooling) == "cls")) continue;
        Configuration c = of(model);
        if (c.model == "classifier") c.pooling = pooling;
        layout.set(c);
        const Outcome right = step(c, /*checks=*/true, {}, {});
        ASSERT_TRUE(right.runs && !right.refused) << model << " " << pooling << " " << layout.name;
        std::vector<ChangedMovement> changes;
        for (size_t call = 0; call < right.movements.size(); ++call) {
          const auto before = right.movements.begin() + static_cast<std::ptrdiff_t>(call);
          if (c.recompute != "none" && std::find(right.movements.begin(), before, *before) != before) continue;
          changes.push_back({call, Change::skip});
          changes.push_back({call, Change::twice});
          for (const std::string& other : of_the_same_shapes(before->substr(0, before->find(' '))))
            changes.push_back({call, Change::swap, other});
        }
        for (const ChangedMovement& change : changes) {
          if (std::getenv("ADJOIN_TEST_VERBOSE"))
            std::cout << model << ", " << pooling << ", " << layout.name << ": " << name(change.change) << " "
                      << right.movements[change.call] << " " << change.other << std::endl;
          const Outcome unchecked = step(c, /*checks=*/false, change, right.movements);
          if (!unchecked.runs) continue;  // its shapes do not fit
          const bool is_wrong = differ(unchecked, right),
                     is_refused = step(c, /*checks=*/true, change, right.movements).refused;
          wrong += is_wrong;
          refused += is_wrong && is_refused;
          harmless += !is_wrong && is_refused;
          if (is_wrong && !is_refused)
            ++missed[std::string(model) + ", " + pooling + ", " + layout.name + ": " + name(change.change) + " " +
                     right.movements[change.call] + (change.other.empty() ? "" : " for " + change.other)];
        }
      }
  for (const auto& [what, times] : missed)
    std::printf("  missed %lld: %s\n", static_cast<long long>(times), what.c_str());
  std::printf("%lld wrong gradients, %lld refused; %lld refused without harm\n", static_cast<long long>(wrong),
              static_cast<long long>(refused), static_cast<long long>(harmless));
  EXPECT_GT(wrong, 20);
  EXPECT_EQ(refused, wrong);
}

}  // namespace
}  // namespace adjoin::train
