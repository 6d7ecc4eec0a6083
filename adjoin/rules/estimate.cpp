#include "adjoin/rules/estimate.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin::rules {
namespace {

constexpr double kRefused = std::numeric_limits<double>::infinity();

}  // namespace

double bytes_sent(const Layout& from, const Layout& to, int64_t element_bytes) {
  return GlobalMove::cost(from, to) * static_cast<double>(element_bytes);
}

Estimate::Estimate(Noted noted, const Grid& grid, MoveCost move, double computed)
    : noted_(std::move(noted)),
      is_read_(noted_.values),
      home_(std::make_shared<GlobalGrid>(grid)),
      move_(std::move(move)),
      computed_(computed) {
  require(grid.shape().axes().size() <= Axes().size(), "automatic: expected a grid of at most 16 axes");
  for (const NotedCall& call : noted_.calls)
    for (const NotedCall::Operand& operand : call.operands)
      if (operand.value) is_read_[*operand.value] = true;
}

Estimate::Number Estimate::number_of(const Layout& layout) {
  const auto place = std::ranges::find(layouts_, layout) - layouts_.begin();
  if (place == std::ssize(layouts_)) layouts_.push_back(layout);
  return static_cast<Number>(place);
}

double Estimate::moved(Number from, Number to, int64_t element_bytes) {
  if (from == to) return 0;
  const std::tuple key(from, to, element_bytes);
  if (const auto found = moves_.find(key); found != moves_.end()) return found->second;
  double cost = kRefused;
  try {
    cost = move_(layout(from), layout(to), element_bytes);
  } catch (const InvalidArgument&) {  // no move between these
  }
  return moves_.emplace(key, cost).first->second;
}

const Estimate::Run& Estimate::run_of(const NotedCall& call, const std::vector<Number>& lies) {
  std::vector<Number> key{static_cast<Number>(call.alike)};
  key.insert(key.end(), lies.begin(), lies.end());
  if (const auto found = runs_.find(key); found != runs_.end()) return found->second;
  Run run;
  try {
    run = this->found(call, lies);
  } catch (const InvalidArgument&) {
    run.is_refused = true;
  }
  return runs_.emplace(std::move(key), std::move(run)).first->second;
}

Estimate::Run Estimate::found(const NotedCall& call, const std::vector<Number>& lies) {
  Run run;
  Operation operation{call.handle, call.arguments, {}, *home_, call.is_in_place};
  for (size_t i = 0; i < lies.size(); ++i) {
    const bool is_plain = lies[i] == kPlain;
    operation.operands.push_back(
        {is_plain ? home_->everywhere(call.operands[i].shape) : layout(lies[i]), call.operands[i].argument, is_plain});
  }
  const Known* known = known_rule(call.handle);
  const bool writes_plain = call.is_in_place && lies[0] == kPlain;
  std::optional<Way> way;
  if (known != nullptr && !writes_plain) way = least_way(operation, known->rule);
  if (!way && call.is_in_place && !writes_plain) {
    Layout& self = operation.operands[0].layout;
    run.self = number_of(self = nn::summed(self));
    if (known != nullptr) way = least_way(operation, known->rule);
  }
  if (!way) {  // gathered, and all workers compute it
    way.emplace();
    Operation whole = operation;
    for (Operand& operand : whole.operands) {
      operand.layout = home_->everywhere(operand.layout.shape());
      way->reads.push_back(operand.layout);
    }
    for (const NotedCall::Result& result : call.results)
      way->makes.push_back(run.self ? operation.operands[0].layout : home_->everywhere(result.shape));
    const std::optional<Way> all = known == nullptr ? std::nullopt : least_way(whole, known->rule);
    if (all) way->work = all->work;
  }
  for (const Layout& read : way->reads) run.reads.push_back(number_of(read));
  for (const Layout& make : way->makes) run.makes.push_back(number_of(make));
  for (const auto& [from, to] : way->moves) run.within.emplace_back(number_of(from), number_of(to));
  run.work = way->work > 0 || call.is_view || way->makes.empty() ? way->work : largest_piece(way->makes[0]);
  require(run.makes.size() == call.results.size(), [&] {
    return operation.name() + ": its rule makes " + std::to_string(run.makes.size()) + " tensors, of " +
           std::to_string(call.results.size());
  });
  return run;
}

Estimate::Number Estimate::sum_of(Number number) {
  if (const auto found = sums_.find(number); found != sums_.end()) return found->second;
  const Number sum = number_of(nn::summed(layout(number)));
  return sums_.emplace(number, sum).first->second;
}

Estimate::Axes Estimate::open_after(Number weight, Number read) {
  const auto [found, is_new] = open_.try_emplace({weight, read});
  if (!is_new) return found->second;
  Layout used = layout(weight);  // as an operation has it where no element moves
  Axes copied, still;
  const std::vector<GridShape::Axis>& axes = used.grid().axes();
  for (size_t i = 0; i < axes.size(); ++i) {
    if (used.kind(axes[i].name) != Kind::copied) continue;
    copied.set(i);
    if (layout(read).kind(axes[i].name) == Kind::replicated)
      used = used.with_kind(axes[i].name, Kind::replicated);
    else
      still.set(i);
  }
  return found->second = used == layout(read) ? still : copied;
}

double Estimate::summed_gradient(Number weight, const Axes& open, int64_t element_bytes) {
  if (open.none()) return 0;
  const auto key = std::pair(weight, open.to_ulong());
  if (!gradients_.contains(key)) {
    Layout gradient = layout(weight);
    const std::vector<GridShape::Axis>& axes = gradient.grid().axes();
    for (size_t i = 0; i < axes.size(); ++i)
      if (gradient.kind(axes[i].name) == Kind::copied)
        gradient = gradient.with_kind(axes[i].name, open[i] ? Kind::partial : Kind::replicated);
    gradients_[key] = number_of(gradient);
  }
  const Number gradient = gradients_[key];
  return moved(gradient, sum_of(gradient), element_bytes);
}

Cost Estimate::of(const std::vector<Number>& begin) {
  Cost cost;
  std::vector<Number> lies(noted_.values, kPlain), moved_to(noted_.values, kPlain), operands;
  std::vector<Axes> open(noted_.gradient_bytes.size());
  std::ranges::copy(begin, lies.begin());
  for (const NotedCall& call : noted_.calls) {
    operands.clear();
    for (const NotedCall::Operand& operand : call.operands)
      operands.push_back(operand.value ? lies[*operand.value] : kPlain);
    if (std::ranges::all_of(operands, [](Number number) { return number == kPlain; })) continue;
    const Run& run = run_of(call, operands);
    if (run.is_refused) return {.moved = kRefused, .total = kRefused};
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] == kPlain) continue;
      const size_t value = *call.operands[i].value;
      const int64_t bytes = call.operands[i].element_bytes;
      Number from = operands[i];
      if (i == 0 && run.self) {
        cost.moved += moved(from, *run.self, bytes);
        from = *run.self;
      }
      const bool is_leaf = value < open.size() && noted_.gradient_bytes[value] > 0;
      if (is_leaf) open[value] |= open_after(from, run.reads[i]);
      if (run.reads[i] == from || run.reads[i] == moved_to[value])
        continue;  // several that read it alike cost one move
      cost.moved += moved(from, run.reads[i], bytes);
      if (!is_leaf) moved_to[value] = run.reads[i];
    }
    for (size_t i = 0; i < run.makes.size(); ++i) lies[call.results[i].value] = run.makes[i];
    if (call.results.empty()) continue;
    const int64_t bytes = call.results[0].element_bytes;
    cost.computed += run.work * static_cast<double>(bytes);
    for (const auto& [from, to] : run.within) cost.moved += moved(from, to, bytes);
    for (size_t i = 0; i < run.makes.size(); ++i)
      if (!is_read_[call.results[i].value])
        cost.moved += moved(run.makes[i], sum_of(run.makes[i]), call.results[i].element_bytes);
  }
  for (size_t i = 0; i < open.size(); ++i) cost.moved += summed_gradient(begin[i], open[i], noted_.gradient_bytes[i]);
  cost.total = cost.moved + computed_ * cost.computed;
  return cost;
}

}  // namespace adjoin::rules
