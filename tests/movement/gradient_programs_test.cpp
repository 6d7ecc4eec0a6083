#include "tests/support/gradient_programs.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <map>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "tests/support/changed_movements.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;

constexpr double kTolerance = 1e-9;

int64_t scale() {
  const char* text = std::getenv("ADJOIN_TEST_SCALE");
  return text ? std::strtoll(text, nullptr, 10) : 1;
}

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

std::string refusal(const RunProgram& ran, const Grid& grid) {
  try {
    check_gradients(ran.loss, ran.known, {}, grid, ran.loss_kinds);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(GradientPrograms, that_are_right_have_the_gradients_of_one_worker_and_are_not_accused) {
  const int64_t programs = 60 * scale();
  for (int64_t seed = 0; seed < programs; ++seed) {
    const GradientProgram program = random_program(static_cast<uint64_t>(seed), sizes_of(seed));
    const auto expected = gradients_of_one_worker(program);
    on_grid(program.grid, [&](const Grid& grid) {
      const RunProgram ran = run(program, grid);
      EXPECT_EQ(refusal(ran, grid), "") << "seed " << seed;
      ran.loss.backward();
      EXPECT_LT(distance(summed_gradients(program, ran, grid), expected[static_cast<size_t>(grid.cell())]), kTolerance)
          << "seed " << seed;
    });
  }
}

struct ChangedMovement {
  size_t which;  // of the movements, in the order of their calls
  Change change;
  std::string other = {};
};

struct Outcome {
  bool runs = true;
  std::atomic<bool> is_wrong = false, is_refused = false;
};

void try_changed(const GradientProgram& program, const std::vector<std::vector<at::Tensor>>& expected,
                 const ChangedMovement& wrong, Outcome& outcome) {
  const auto work = [&](const Grid& grid) {
    RunProgram ran;
    {
      size_t call = 0;
      const ReplacedMovements replaced([&](const LinearMap& map, const at::Tensor& x, const Communicator& workers) {
        return call++ == wrong.which ? changed(wrong.change, wrong.other, map, x, workers) : apply(map, x, workers);
      });
      ran = run(program, grid);
    }
    if (!refusal(ran, grid).empty()) outcome.is_refused = true;
    ran.loss.backward();
    if (distance(summed_gradients(program, ran, grid), expected[static_cast<size_t>(grid.cell())]) > kTolerance)
      outcome.is_wrong = true;
  };
  try {
    on_grid(program.grid, work);
  } catch (const Error&) {  // shapes that do not fit
    outcome.runs = false;
  } catch (const c10::Error&) {
    outcome.runs = false;
  }
}

std::vector<std::string> movements_of(const GradientProgram& program) {
  std::vector<std::string> movements;
  on_grid(program.grid, [&](const Grid& grid) {
    const ReplacedMovements noted([&](const LinearMap& map, const at::Tensor& x, const Communicator& workers) {
      if (grid.cell() == 0) movements.push_back(map.kinds->name);
      return apply(map, x, workers);
    });
    run(program, grid);
  });
  return movements;
}

TEST(GradientPrograms, with_one_movement_changed_are_refused) {
  const int64_t programs = 8 * scale();
  int64_t wrong = 0, refused = 0, refused_without_harm = 0, do_not_run = 0;
  std::map<std::string, int64_t> missed;
  for (int64_t seed = 0; seed < programs; ++seed) {
    const GradientProgram program = random_program(static_cast<uint64_t>(seed), sizes_of(seed));
    const auto expected = gradients_of_one_worker(program);
    const std::vector<std::string> movements = movements_of(program);
    std::vector<ChangedMovement> changes;
    for (size_t which = 0; which < movements.size(); ++which) {
      changes.push_back({which, Change::skip});
      changes.push_back({which, Change::twice});
      for (const std::string& other : of_the_same_shapes(movements[which]))
        changes.push_back({which, Change::swap, other});
    }
    for (const ChangedMovement& change : changes) {
      Outcome outcome;
      try_changed(program, expected, change, outcome);
      do_not_run += !outcome.runs;
      if (!outcome.runs) continue;
      wrong += outcome.is_wrong;
      refused += outcome.is_wrong && outcome.is_refused;
      refused_without_harm += !outcome.is_wrong && outcome.is_refused;
      if (outcome.is_wrong == outcome.is_refused) continue;
      const std::string what = std::string(name(change.change)) + " " + movements[change.which] + " " + change.other;
      if (outcome.is_wrong) ++missed[what];
      if (std::getenv("ADJOIN_TEST_VERBOSE"))
        std::cout << "  seed " << seed << (outcome.is_wrong ? ", missed: " : ", refused without harm: ") << what
                  << "\n";
    }
  }
  for (const auto& [what, times] : missed) std::cout << "  missed " << times << ": " << what << "\n";
  std::cout << programs << " programs: " << wrong << " wrong gradients, " << refused << " refused; "
            << refused_without_harm << " refused without harm, " << do_not_run << " of shapes that do not fit\n";
  EXPECT_GT(wrong, 5 * programs);
  EXPECT_GE(static_cast<double>(refused), 0.9 * static_cast<double>(wrong));
}

}  // namespace
}  // namespace adjoin
