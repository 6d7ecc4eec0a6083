#include "adjoin/nn/rules/estimate.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin::nn::rules {
namespace {

constexpr double kRefused = std::numeric_limits<double>::infinity();

/// The elements of the largest piece.
double largest_piece(const Layout& layout) {
  double most = 1;
  for (const Layout::Cut& cut : layout.cuts()) most *= static_cast<double>(std::ranges::max(cut.split.sizes()));
  return most;
}

}  // namespace

double bytes_sent(const Layout& from, const Layout& to, int64_t element_bytes) {
  return GlobalMove::cost(from, to) * static_cast<double>(element_bytes);
}

Estimate::Estimate(Noted noted, const Grid& grid, MoveCost move)
    : noted_(std::move(noted)), is_read_(noted_.values), home_(global_grid(grid)), move_(std::move(move)) {
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
    cost = move_(layouts_[static_cast<size_t>(from)], layouts_[static_cast<size_t>(to)], element_bytes);
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
        {is_plain ? home_->everywhere(call.operands[i].shape) : layouts_[static_cast<size_t>(lies[i])],
         call.operands[i].argument, is_plain});
  }
  const Known* known = known_rule(call.handle);
  const bool writes_plain = call.is_in_place && lies[0] == kPlain;
  std::optional<Way> way;
  if (known != nullptr && !writes_plain) way = least_way(operation, known->rule);
  if (!way && call.is_in_place && !writes_plain) {
    Layout& self = operation.operands[0].layout;
    run.self = number_of(self = summed(self));
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

std::vector<std::string> Estimate::open_after(const Layout& weight, const Layout& read) const {
  const std::vector<std::string> copied = weight.axes(Kind::copied);
  Layout used = weight;  // as the first reader of a leaf has it, where no element moves
  std::vector<std::string> still;
  for (const std::string& axis : copied)
    if (read.kind(axis) == Kind::replicated)
      used = used.with_kind(axis, Kind::replicated);
    else
      still.push_back(axis);
  return used == read ? still : copied;
}

Cost Estimate::of(const std::vector<Number>& begin) {
  Cost cost;
  std::vector<Number> lies(noted_.values, kPlain), moved_to(noted_.values, kPlain), operands;
  std::vector<std::set<std::string>> open(noted_.gradient_bytes.size());
  std::ranges::copy(begin, lies.begin());
  for (const NotedCall& call : noted_.calls) {
    operands.clear();
    for (const NotedCall::Operand& operand : call.operands)
      operands.push_back(operand.value ? lies[*operand.value] : kPlain);
    if (std::ranges::all_of(operands, [](Number number) { return number == kPlain; })) continue;
    const Run& run = run_of(call, operands);
    if (run.is_refused) return {.moved = kRefused};
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
      if (is_leaf)
        for (std::string& axis : open_after(layouts_[static_cast<size_t>(from)], layouts_[static_cast<size_t>(run.reads[i])]))
          open[value].insert(std::move(axis));
      if (run.reads[i] == from || run.reads[i] == moved_to[value]) continue;  // several that read it alike cost one move
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
        cost.moved += moved(run.makes[i], number_of(summed(layouts_[static_cast<size_t>(run.makes[i])])),
                            call.results[i].element_bytes);
  }
  for (size_t i = 0; i < open.size(); ++i) {
    if (open[i].empty()) continue;
    Layout gradient = layouts_[static_cast<size_t>(begin[i])];
    for (const std::string& axis : gradient.axes(Kind::copied))
      gradient = gradient.with_kind(axis, open[i].contains(axis) ? Kind::partial : Kind::replicated);
    cost.moved += moved(number_of(gradient), number_of(summed(gradient)), noted_.gradient_bytes[i]);
  }
  return cost;
}

}  // namespace adjoin::nn::rules
