#include "adjoin/parallel/weights.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/optim/lbfgs.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/parallel/bucket.hpp"
#include "adjoin/parallel/copies.hpp"
#include "adjoin/parallel/gradient_sums.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/parallel/shared_order.hpp"
#include "adjoin/parallel/weight_gathers.hpp"
#include "adjoin/parallel/weight_parts.hpp"
#include "adjoin/parallel/weight_units.hpp"

namespace adjoin::parallel {

class Weights::State {
 public:
  State(torch::nn::Module& module, const Communicator& group, WeightsOptions options, std::string who);
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  double backward(const at::Tensor& loss, int64_t samples, const Backward& options);
  Update step(const std::vector<at::Tensor>& of, const std::function<void()>& update, double clip);
  bool any(bool here) {
    check_not_whole("any");
    end_forward();
    return largest_of_all(here ? 1 : 0, group_) != 0;
  }
  at::Tensor use(const at::Tensor& weight) {
    check_not_whole("use");
    if (gathers_) gathers_->hold(weight);
    return weight;
  }
  void while_whole(const std::function<void()>& work) {
    check_not_whole("while_whole");
    end_forward();
    if (!gathers_) return work();
    is_whole_ = true;
    const auto end = c10::make_scope_exit([&] { is_whole_ = false; });
    gathers_->while_whole(work);
    gathers_->note_update();
  }
  std::vector<at::Tensor> parts() const {
    std::vector<at::Tensor> tensors;
    for (const nn::Parameter& part : parts_) tensors.push_back(part.tensor);
    return tensors;
  }

  /// What a caller may write into: what is whole would then be out of date.
  const std::vector<nn::Parameter>& shown(const std::vector<nn::Parameter>& pieces) {
    if (gathers_ && !is_whole_) gathers_->release();
    return pieces;
  }
  const std::vector<nn::Parameter>& trained() { return shown(parts_); }
  const std::vector<nn::Parameter>& parameters() { return shown(parameters_); }
  const Grid& grid() const { return grid_; }

 private:
  void check(const std::vector<nn::Parameter>& all) const;
  void cut_values();
  void make_sums(const Members& buckets);
  void run(const at::Tensor& loss, int64_t samples, double weight, const Backward& options);
  void end_forward();
  void check_unchanged() const;
  void check_not_whole(const char* call) const {
    require(!is_whole_, [&] { return who_ + "::" + call + ": expected it after while_whole, got it within"; });
  }
  std::pair<double, double> sum_over_ranks();
  double norm_of(const std::vector<at::Tensor>& gradients) const;

  std::string who_;
  torch::nn::Module& module_;
  Communicator group_;
  Grid grid_;
  WeightsOptions options_;
  std::vector<nn::Parameter> parameters_;        // for a checkpoint
  std::vector<nn::Parameter> trained_, frozen_;  // the module's own tensors
  std::vector<nn::Parameter> parts_;             // for an optimizer, of trained_
  std::vector<at::Tensor> tensors_;              // of the module, as it was
  std::optional<WeightParts> shards_in_place_;   // in stages 1 and 2
  std::optional<WeightGathers> gathers_;         // in stage 3
  std::optional<GradientSums> sums_;
  std::optional<SharedOrder> forward_, backward_;
  SharedOrder* order_ = nullptr;  // of the pass that runs
  bool is_whole_ = false;         // within while_whole
  bool awaits_last_ = false;      // whether gradients have been added up since the last backward with `last`
  int64_t samples_ = 0;           // of this rank, in the calls since the last update
  double losses_ = 0;
  int first_with_samples_ = -1;
};

Weights::State::State(torch::nn::Module& module, const Communicator& group, WeightsOptions options, std::string who)
    : who_(std::move(who)),
      module_(module),
      // With calls of its own in stage 3, where another object's may come in between in another order on another rank.
      group_(options.zero == 3 ? own_group(group) : group),
      grid_(group, {{"dp", group.size()}}),
      options_(std::move(options)),
      parameters_(nn::parameters_of(module, grid_)),
      tensors_(module.parameters()) {
  check(parameters_);
  broadcast_parameters(module, group);
  for (const nn::Parameter& parameter : parameters_)
    if (!parameter.is_buffer) (is_trained(parameter) ? trained_ : frozen_).push_back(parameter);
  if (options_.zero == 3) {
    cut_values();
  } else {
    const Members buckets = reversed_buckets(trained_, options_.bucket_bytes);
    if (options_.zero > 0) {
      give_own_memory(trained_, who_);
      shards_in_place_.emplace(trained_, buckets, group_, who_);
    }
    parts_ = shards_in_place_ ? shards_in_place_->parts() : trained_;
    if (!shards_in_place_)  // whose gradients are already those of all
      for (nn::Parameter& part : parts_) part.layout = part.layout.with_kind("dp", Kind::replicated);
    make_sums(buckets);
  }
}

void Weights::State::check(const std::vector<nn::Parameter>& all) const {
  require(options_.zero >= 0 && options_.zero <= 3,
          [&] { return who_ + ": expected zero from 0 to 3, got " + std::to_string(options_.zero); });
  const auto is_known = [](at::ScalarType type) { return at::isFloatingType(type) && !c10::isFloat8Type(type); };
  require(!options_.wire || is_known(*options_.wire), [&] {
    return who_ + ": expected a floating-point type as `wire`, got " + std::string(c10::toString(*options_.wire));
  });
  for (const nn::Parameter& parameter : all) {
    require(!parameter.initial, [&] {
      return who_ + ": '" + parameter.name +
             "' is a piece of a global tensor; use parallel::sum_gradients or parallel::Optimizer, which use its "
             "layout";
    });
    require(!is_trained(parameter) || !GradientHook::is_on(parameter.tensor), [&] {
      return who_ + ": the gradients of '" + parameter.name +
             "' are already summed by another Weights, DataParallel or Optimizer";
    });
  }
  check_same_module(all, who_, group_);
}

/// Stage 3: all weights, also frozen ones.
void Weights::State::cut_values() {
  std::vector<nn::Parameter> weights;
  for (const nn::Parameter& parameter : parameters_)
    if (!parameter.is_buffer) weights.push_back(parameter);
  give_own_memory(weights, who_);
  const Members units = units_of(weights, options_.unit_bytes);
  gathers_.emplace(weights, units, group_, who_, [this](int64_t event) { order_->want(event); });
  const int64_t count = gathers_->events();
  std::vector<int64_t> forward, backward;
  for (size_t unit = 0; unit < units.size(); ++unit) gathers_->append_events(unit, forward);
  Members buckets;
  std::vector<size_t> place(weights.size());  // among trained ones
  for (size_t i = 0, next = 0; i < weights.size(); ++i) place[i] = is_trained(weights[i]) ? next++ : next;
  for (size_t unit = units.size(); unit-- > 0;) {
    gathers_->append_events(unit, backward);
    std::vector<size_t> members;
    for (const size_t i : units[unit])
      if (is_trained(weights[i])) members.push_back(place[i]);
    if (members.empty()) continue;
    backward.push_back(count + std::ssize(buckets));
    buckets.push_back(std::move(members));
  }
  auto shard = gathers_->shards().begin();
  for (nn::Parameter& parameter : parameters_)
    if (!parameter.is_buffer) parameter = *shard++;
  for (const nn::Parameter& of : gathers_->shards())
    if (is_trained(of)) parts_.push_back(of);
  options_.overlap = WeightsOptions::Overlap::off;
  make_sums(buckets);
  const auto carry_out = [this, count](int64_t event, bool is_wanted) {
    if (event < count)
      gathers_->carry_out(event, is_wanted);
    else
      sums_->carry_out(static_cast<size_t>(event - count));
  };
  const auto serve = [this](const std::vector<int64_t>& of_ranks) { gathers_->serve(of_ranks); };
  forward_.emplace(group_, std::move(forward), SharedOrder::Events{count, count, carry_out, serve});
  backward_.emplace(group_, std::move(backward),
                    SharedOrder::Events{count, count + std::ssize(buckets), carry_out, serve});
  order_ = &*forward_;
}

void Weights::State::make_sums(const Members& buckets) {
  using Overlap = WeightsOptions::Overlap;
  const bool overlaps =
      options_.overlap == Overlap::on || (options_.overlap == Overlap::automatic && group_.backend()->spans_hosts());
  GradientSums::Options of_sums{.to_owners = options_.zero > 0, .wire = options_.wire, .who = who_};
  if (overlaps && group_.size() > 1) of_sums.stream = group_.stream();
  const int64_t gathers = gathers_ ? gathers_->events() : 0;
  for (size_t i = 0; gathers_ && i < gathers_->shards().size(); ++i)
    if (is_trained(gathers_->shards()[i])) of_sums.tables.push_back(gathers_->table(i));
  sums_.emplace(trained_, buckets, group_, std::move(of_sums),
                [this, gathers](size_t bucket) { order_->offer(gathers + static_cast<int64_t>(bucket)); });
  if (gathers_) return;
  std::vector<int64_t> list;
  for (size_t i = 0; i < buckets.size(); ++i) list.push_back(static_cast<int64_t>(i));
  backward_.emplace(group_, list, SharedOrder::Events{0, std::ssize(list), [this](int64_t bucket, bool) {
                                                        sums_->carry_out(static_cast<size_t>(bucket));
                                                      }});
}

void Weights::State::end_forward() {
  if (forward_) forward_->end();
  if (gathers_) gathers_->release();
}

double Weights::State::backward(const at::Tensor& loss, int64_t samples, const Backward& options) {
  require(samples >= 0,
          [&] { return who_ + "::backward: expected 0 samples or more, got " + std::to_string(samples); });
  require(samples == 0 || (loss.defined() && loss.numel() == 1), [&] {
    return who_ + "::backward: expected the mean loss, a single number, got " +
           (loss.defined() ? c10::str(loss.sizes()) : std::string("an undefined tensor"));
  });
  check_not_whole("backward");
  check_unchanged();
  bool done = false;
  const auto end = c10::make_scope_exit([&] {
    sums_->rest();
    if (gathers_) order_ = &*forward_;
    if (done && !options.last) return;
    if (!done) {
      sums_->forget();
      backward_->begin_again();
      if (forward_) forward_->begin_again();
      if (gathers_) gathers_->release();
    }
    awaits_last_ = false;
    samples_ = 0;
    losses_ = 0;
  });
  const bool sums_each_time = options_.zero >= 2, adds = sums_each_time ? awaits_last_ : samples_ > 0;
  const double mean = samples == 0 ? 0 : loss.item().toDouble();
  samples_ += samples;
  losses_ += samples == 0 ? 0 : mean * static_cast<double>(samples);
  awaits_last_ = true;
  if (!options.last && !sums_each_time) {
    sums_->begin(/*sums=*/false);
    run(loss, samples, static_cast<double>(samples), options);
    done = true;
    return mean;
  }
  if (forward_) forward_->end();
  const auto [all_samples, all_losses] = options.last ? sum_over_ranks() : std::pair(0.0, 0.0);
  const double one_of_all = all_samples > 0 ? 1 / all_samples : 1;
  const bool is_weighted = adds || !options.last;  // by this rank's samples; the division by all samples follows
  sums_->begin(/*sums=*/true, adds && !sums_each_time ? one_of_all : 1);
  order_ = &*backward_;
  run(loss, samples, is_weighted ? static_cast<double>(samples) : static_cast<double>(samples) / all_samples, options);
  backward_->end();
  if (gathers_) gathers_->release();
  sums_->finish();
  done = true;
  if (!options.last) return mean;
  sums_->give(adds && sums_each_time ? one_of_all : 1, parts());
  if (all_samples > 0) join_buffers(module_, static_cast<double>(samples_) / all_samples, first_with_samples_, group_);
  return all_samples > 0 ? all_losses / all_samples : 0;
}

void Weights::State::run(const at::Tensor& loss, int64_t samples, double weight, const Backward& options) {
  if (samples > 0) torch::autograd::backward({loss}, {at::full_like(loss, weight)}, options.retain_graph);
}

void Weights::State::check_unchanged() const {
  const std::vector<at::Tensor> now = module_.parameters();
  const bool is_same = std::ranges::equal(now, tensors_, [](const auto& a, const auto& b) { return a.is_same(b); });
  require(is_same,
          [&] { return who_ + ": the module has other parameters than when " + who_ + " was made: make a new one"; });
  sums_->check_sizes();
  if (shards_in_place_) shards_in_place_->check_memory();
}

/// The samples and losses of all ranks. Throws where a rank has a parameter that was frozen and no longer is.
std::pair<double, double> Weights::State::sum_over_ranks() {
  const auto thawed = std::find_if(frozen_.begin(), frozen_.end(), is_trained);
  const std::array<double, 3> mine{static_cast<double>(samples_), losses_, static_cast<double>(frozen_.end() - thawed)};
  const std::vector<int64_t> counts(static_cast<size_t>(group_.size()), std::ssize(mine));
  std::vector<double> all(mine.size() * counts.size());
  group_.all_gather(const_buffer(mine), buffer(all), counts);
  std::pair<double, double> sums{0, 0};
  first_with_samples_ = -1;
  double first_thawed = 0;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    sums.first += all[3 * rank];
    sums.second += all[3 * rank + 1];
    first_thawed = std::max(first_thawed, all[3 * rank + 2]);
    if (first_with_samples_ < 0 && all[3 * rank] > 0) first_with_samples_ = static_cast<int>(rank);
  }
  require(first_thawed == 0, [&] {
    return who_ + ": '" + (frozen_.end() - static_cast<int64_t>(first_thawed))->name +
           "' did not require gradients when " + who_ + " was made, but does now: make a new " + who_;
  });
  return sums;
}

double Weights::State::norm_of(const std::vector<at::Tensor>& gradients) const {
  std::array<double, 1> squares{};
  for (const at::Tensor& gradient : gradients)
    squares[0] += std::pow(at::linalg_vector_norm(reals_of(gradient), 2, {}, false, at::kDouble).item<double>(), 2);
  if (options_.zero > 0) group_.all_reduce(buffer(squares));
  return std::sqrt(squares[0]);
}

Update Weights::State::step(const std::vector<at::Tensor>& of, const std::function<void()>& update, double clip) {
  check_not_whole("step");
  require(!awaits_last_,
          [&] { return who_ + "::step: expected a backward with last = true before it, got one with last = false"; });
  end_forward();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& tensor : of) {
    require(std::ranges::any_of(parts_, [&](const nn::Parameter& part) { return part.tensor.is_same(tensor); }),
            [&] { return who_ + "::step: expected an optimizer of parts(), got one of other tensors"; });
    if (tensor.grad().defined()) gradients.push_back(tensor.grad());
  }
  const double norm = norm_of(gradients);
  if (std::isfinite(norm)) {
    const at::NoGradGuard no_gradient;
    if (clip > 0 && norm > clip)
      for (const at::Tensor& gradient : gradients) gradient.mul_(clip / norm);
    if (shards_in_place_)
      shards_in_place_->update(update);
    else
      update();
    if (gathers_) gathers_->note_update();
  }
  for (const at::Tensor& tensor : of) tensor.mutable_grad().reset();
  return {.norm = norm, .skipped = !std::isfinite(norm)};
}

Weights::Weights(torch::nn::Module& module, const Communicator& group, WeightsOptions options)
    : Weights(module, group, std::move(options), "Weights") {}
Weights::Weights(torch::nn::Module& module, const Communicator& group, WeightsOptions options, std::string who)
    : state_(std::make_unique<State>(module, group, std::move(options), std::move(who))) {}
Weights::~Weights() = default;
Weights::Weights(Weights&&) noexcept = default;
Weights& Weights::operator=(Weights&&) noexcept = default;

double Weights::backward(const at::Tensor& mean_loss, int64_t samples, Backward options) {
  return state_->backward(mean_loss, samples, options);
}
Update Weights::step(const std::vector<at::Tensor>& of, const std::function<void()>& update, double clip) {
  return state_->step(of, update, clip);
}
Update Weights::step(torch::optim::Optimizer& optimizer, double clip) {
  require(dynamic_cast<torch::optim::LBFGS*>(&optimizer) == nullptr,
          "step: expected an optimizer that works element by element, got LBFGS, which needs whole gradients and "
          "computes the loss again");
  std::vector<at::Tensor> of;
  for (const torch::optim::OptimizerParamGroup& group : optimizer.param_groups())
    of.insert(of.end(), group.params().begin(), group.params().end());
  return step(
      of, [&] { optimizer.step(); }, clip);
}
Update Weights::step(Optimizer& optimizer, double learning_rate, double loss_scale) {
  std::optional<Update> of_rule;
  const Update whole = step(
      optimizer.tensors(), [&] { of_rule = optimizer.step(learning_rate, loss_scale); }, /*clip=*/0);
  return of_rule.value_or(Update{.norm = whole.norm / loss_scale, .skipped = true});
}
bool Weights::any(bool here) const {
  return state_->any(here);
}
std::vector<at::Tensor> Weights::parts() const {
  return state_->parts();
}
const std::vector<nn::Parameter>& Weights::trained() const {
  return state_->trained();
}
const std::vector<nn::Parameter>& Weights::parameters() const {
  return state_->parameters();
}
const Grid& Weights::grid() const {
  return state_->grid();
}
at::Tensor Weights::use(const at::Tensor& weight) {
  return state_->use(weight);
}
void Weights::while_whole(const std::function<void()>& work) {
  state_->while_whole(work);
}

}  // namespace adjoin::parallel
