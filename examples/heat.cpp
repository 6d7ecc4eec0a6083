// Heat on a plate that a grid of workers holds together, run backward: from the temperatures after 50 steps of time,
// gradient descent finds out what they were at the beginning.
//
// networks/plate.hpp has the steps.

#include <ATen/ATen.h>

#include "examples/networks/plate.hpp"
#include "examples/support/example.hpp"

using namespace adjoin;

namespace {

using example::Plate;

constexpr int kTimeSteps = 50, kDescents = 20;
constexpr double kRate = 1;  // descent converges for rates up to 1 over the square of the steps' norm, which is below 1

/// The misfit of the temperatures that follow from `begin`, and its gradient. Each worker sums its own piece, and calls
/// backward on that sum.
struct Misfit {
  at::Tensor end, gradient;
  double local = 0;
};

Misfit misfit_of(const Plate& plate, const at::Tensor& begin, const at::Tensor& measured) {
  const at::Tensor leaf = begin.detach().requires_grad_();
  const at::Tensor end = plate.after(kTimeSteps, leaf);
  const at::Tensor misfit = (end - measured).square().sum();
  misfit.backward();
  return {end.detach(), leaf.grad(), misfit.item<double>()};
}

double over_all(const Communicator& world, double value, Reduction reduction) {
  double values[] = {value};
  world.all_reduce(buffer(values), reduction);
  return values[0];
}

/// Two warm spots.
at::Tensor temperatures() {
  const auto line = [](int64_t size) { return at::linspace(0, 1, size, at::kDouble); };
  const at::Tensor y = line(Plate::kRows).unsqueeze(1), x = line(Plate::kColumns);
  const auto spot = [&](double at_y, double at_x, double width) {
    return (-((y - at_y).square() + (x - at_x).square()) / width).exp();
  };
  return spot(0.3, 0.35, 0.02) + spot(0.7, 0.6, 0.03);
}

/// The largest difference between a worker's piece and the same piece of one worker's tensor, relative to the largest
/// element of that, over all workers.
double difference(const Plate& plate, const at::Tensor& mine, const at::Tensor& alone, const Communicator& world) {
  const at::Tensor off = (mine - plate.piece_of(alone)).abs();
  const double largest = off.numel() > 0 ? off.max().item<double>() : 0;
  return over_all(world, largest, Reduction::max) / alone.abs().max().item<double>();
}

void run_backward(const Communicator& world, example::Report& report) {
  const auto [rows, columns] = example::nearly_square(world.size());
  const Grid grid(world, {{"y", rows}, {"x", columns}});
  const int me[] = {world.rank()};
  const Plate plate(grid), whole_plate(Grid(world.subset(me), {{"y", 1}, {"x", 1}}));
  report.line("%ld x %ld temperatures on a grid of %s", static_cast<long>(Plate::kRows),
              static_cast<long>(Plate::kColumns), grid.shape().to_string().c_str());

  // Each worker also runs the same on one worker; all pieces must be pieces of those tensors.
  const at::Tensor truth = temperatures(), nothing = at::zeros_like(truth);
  const at::Tensor measured = whole_plate.after(kTimeSteps, truth), mine = plate.piece_of(measured);
  const Misfit alone = misfit_of(whole_plate, truth, nothing);
  const Misfit together = misfit_of(plate, plate.piece_of(truth), plate.piece_of(nothing));
  const double state = difference(plate, together.end, alone.end, world);
  const double gradient = difference(plate, together.gradient, alone.gradient, world);
  report.line("differs from one worker by %.1e, its gradient by %.1e", state, gradient);
  example::ensure(state <= 1e-12 && gradient <= 1e-12, "the workers together differ from one");

  at::Tensor begin = plate.piece_of(nothing);
  double first = 0, misfit = 0;
  for (int descent = 0; descent <= kDescents; ++descent) {
    const Misfit now = misfit_of(plate, begin, mine);
    misfit = over_all(world, now.local, Reduction::sum);
    if (descent == 0) first = misfit;
    if (descent % 5 == 0) report.line("descent %2d  misfit %.4f", descent, misfit);
    begin = begin - kRate * now.gradient;
  }
  example::ensure(misfit <= first / 100, "descent has not lowered the misfit a hundredfold");
  report.value("state_difference", state);
  report.value("gradient_difference", gradient);
  report.value("first_misfit", first);
  report.value("last_misfit", misfit);
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, {"Heat on a grid of workers, differentiated through 50 steps."}, run_backward);
}
