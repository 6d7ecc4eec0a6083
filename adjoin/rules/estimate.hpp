#pragma once

#include <bitset>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "adjoin/rules/cost.hpp"
#include "adjoin/rules/noted.hpp"
#include "adjoin/rules/operation.hpp"

namespace adjoin::rules {

/// What noted operations cost in layouts of the tensors that they began with. Each operation runs as it would on workers: by the way that
/// the rule and the layouts of its operands give. A result that no operation reads may stay cut, but its sums are taken.
class Estimate {
 public:
  /// `computed`: what a computed byte costs, in the unit of `move`.
  Estimate(Noted noted, const Grid& grid, MoveCost move, double computed);

  const Noted& noted() const { return noted_; }
  /// Layouts are numbered, equal ones alike.
  using Number = int;
  static constexpr Number kPlain = -1;  ///< of a tensor that is not global
  Number number_of(const Layout& layout);
  /// The cost where value i, one that the code began with, has the layout begin[i]: infinite where an operation is refused in
  /// these layouts.
  Cost of(const std::vector<Number>& begin);

 private:
  /// How a call runs on operands of these layouts.
  struct Run {
    bool is_refused = false;
    std::optional<Number> self;  // the layout of the tensor that it writes, whose sum is taken first
    std::vector<Number> reads, makes;
    std::vector<std::pair<Number, Number>> within;  // moves of the kernel
    double work = 0;
  };
  const Run& run_of(const NotedCall& call, const std::vector<Number>& lies);
  Run found(const NotedCall& call, const std::vector<Number>& lies);
  double moved(Number from, Number to, int64_t element_bytes);
  /// Of a layout, with sums taken.
  Number sum_of(Number number);
  using Axes = std::bitset<16>;  // in the grid's order
  /// The axes along which a weight's gradient is a summand on each worker, after a use in the layout `read`.
  Axes open_after(Number weight, Number read);
  /// The cost of the sum of a weight's gradient that is open along these axes after all uses.
  double summed_gradient(Number weight, const Axes& open, int64_t element_bytes);
  const Layout& layout(Number number) const { return layouts_[static_cast<size_t>(number)]; }

  const Noted noted_;
  std::vector<bool> is_read_;               // by value
  const std::shared_ptr<GlobalGrid> home_;  // its own: no tensor is on it
  const MoveCost move_;
  const double computed_;
  std::vector<Layout> layouts_;
  // What was found before.
  std::map<std::vector<Number>, Run> runs_;
  std::map<Number, Number> sums_;
  std::map<std::pair<Number, Number>, Axes> open_;
  std::map<std::pair<Number, unsigned long>, Number> gradients_;
  std::map<std::tuple<Number, Number, int64_t>, double> moves_;
};

}  // namespace adjoin::rules
