// A gradient that is wrong on every worker while nothing fails, and the check that names the mistake before backward.

#include "adjoin/adjoin.hpp"
#include "examples/support/example.hpp"

using namespace adjoin;

/// y = sum of b_i a_i x over hidden features i; each worker has one feature. It is often written like this first.
at::Tensor two_layers(const at::Tensor& x, const at::Tensor& a, const at::Tensor& b, const Communicator& tp) {
  const at::Tensor hidden = a * x;
  return reduce_from(b * hidden, tp);
}

/// The right version: each worker uses x for its own part of the work.
at::Tensor two_layers_rightly(const at::Tensor& x, const at::Tensor& a, const at::Tensor& b, const Communicator& tp) {
  return two_layers(copy_to(x, tp), a, b, tp);
}

int main(int argc, char** argv) {
  const example::About about{"A gradient that is wrong while nothing fails, and what names the mistake.", 2};
  return example::run(argc, argv, about, [](const Communicator& world, example::Report& report) {
    require(world.size() >= 2, "--ranks is 1: a worker alone needs no movement");
    const Grid grid(world, {{"tp", world.size()}});
    const Layout one(grid.shape(), {1}),
        features(grid.shape(), {world.size()}, {{Split::balanced(world.size(), world.size(), 0), {"tp"}}});
    const auto parameter = [](double value) { return at::full({1}, value, at::kDouble).requires_grad_(true); };
    const at::Tensor x = parameter(3), a = parameter(2 + 3 * world.rank()), b = parameter(world.rank() == 0 ? 4 : 1);

    const auto gradient_of_x = [&](const at::Tensor& loss) {
      x.mutable_grad() = at::Tensor();
      loss.backward();
      return x.grad().item<double>();
    };
    const auto check = [&](const at::Tensor& loss) {
      check_gradients(loss, {{"x", x, one, world}, {"a", a, features, world}, {"b", b, features, world}}, {}, grid);
    };

    const double wrong = gradient_of_x(two_layers(x, a, b, world)),
                 right = gradient_of_x(two_layers_rightly(x, a, b, world));
    report.line("the gradient of x on rank 0 is %.0f, and must be %.0f", wrong, right);
    report.value("wrong", wrong);
    report.value("right", right);
    check(two_layers_rightly(x, a, b, world));
    try {
      check(two_layers(x, a, b, world));
    } catch (const InvalidArgument& error) {
      report.line("%s", error.what());
      report.value("error", std::string(error.what()));
      return;
    }
    throw InternalError("the mistake was not reported");
  });
}
