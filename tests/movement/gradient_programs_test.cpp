#include "tests/support/gradient_programs.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "tests/support/changed_movements.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/scale.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;

constexpr double kTolerance = 1e-9;

std::vector<int> sizes_of(int64_t seed) {
  const std::vector<std::vector<int>> all{{2, 2}, {2, 3}, {2, 2, 2}, {3, 2}};
  return all[static_cast<size_t>(seed) % all.size()];
}

double distance(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  double most = 0;
  for (size_t i = 0; i < found.size(); ++i) most = std::max(most, (found[i] - expected[i]).abs().max().item<double>());
  return std::isfinite(most) ? most : 1;
}

void on_grid(const GridShape& shape, const std::function<void(const Grid&)>& fn) {
  launch_threads(shape.cells(), [&](const Communicator& world) { fn(Grid(world, shape)); });
}

/// `declares_values`: all that the program computes, as a program on DistributedTensors does.
std::string refusal(const RunProgram& ran, const Grid& grid, bool declares_values) {
  try {
    check_gradients(ran.loss, ran.known, declares_values ? ran.values : std::vector<KnownTensor>(), grid,
                    ran.loss_kinds);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(GradientPrograms, that_are_right_have_the_gradients_of_one_worker_and_are_not_accused) {
  const int64_t programs = 60 * test::scale();
  for (int64_t seed = 0; seed < programs; ++seed) {
    const GradientProgram program = random_program(static_cast<uint64_t>(seed), sizes_of(seed));
    const auto expected = gradients_of_one_worker(program);
    on_grid(program.grid, [&](const Grid& grid) {
      const RunProgram ran = run(program, grid);
      for (const bool declares_values : {false, true})
        EXPECT_EQ(refusal(ran, grid, declares_values), "") << "seed " << seed;
      ran.loss.backward();
      EXPECT_LT(distance(summed_gradients(program, ran, grid), expected[static_cast<size_t>(grid.cell())]), kTolerance)
          << "seed " << seed;
    });
  }
}

TEST(GradientPrograms, with_one_movement_changed_are_refused) {
  const int64_t programs = (kIsSanitized ? 2 : 8) * test::scale();
  std::array<ChangesTried, 2> tried;  // what is declared: parameters and the loss; all values
  for (int64_t seed = 0; seed < programs; ++seed) {
    const GradientProgram program = random_program(static_cast<uint64_t>(seed), sizes_of(seed));
    const auto gradients = [&](const Communicator& world, const Trial& trial) {
      const Grid grid(world, program.grid);
      const ReplacedMovements replaced(trial.replace);
      const RunProgram ran = run(program, grid);
      std::vector<bool> refused_by;
      for (const bool declares_values : {false, true})  // all ranks would judge alike
        refused_by.push_back(world.rank() == 0 && !refusal(ran, grid, declares_values).empty());
      ran.loss.backward();
      return Gradients{summed_gradients(program, ran, grid), ran.loss.detach(), refused_by};
    };
    try_changes("seed " + std::to_string(seed), gradients, {.ranks = program.grid.cells()}, tried);
  }
  tried[0].report(std::to_string(programs) + " programs");
  tried[1].report(std::to_string(programs) + " programs that declare their values");
  EXPECT_GT(tried[0].wrong, 5 * programs);
  EXPECT_GE(static_cast<double>(tried[0].refused), 0.9 * static_cast<double>(tried[0].wrong));
  EXPECT_GE(static_cast<double>(tried[1].refused), 0.99 * static_cast<double>(tried[1].wrong));
}

}  // namespace
}  // namespace adjoin
