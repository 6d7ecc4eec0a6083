#include "adjoin/parallel/data_parallel.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/async_communicator.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/parallel/bucket.hpp"
#include "adjoin/parallel/copies.hpp"
#include "adjoin/parallel/gradient_hook.hpp"

namespace adjoin::parallel {
namespace {

/// The buckets of the parameters, in the reverse order of their registration.
std::vector<Bucket> reversed_buckets(const std::vector<nn::Parameter>& parameters, int64_t most_bytes) {
  struct Open {
    std::vector<size_t> members;
    int64_t bytes = 0;
  };
  std::map<at::ScalarType, Open> open;
  std::vector<Bucket> buckets;
  const auto close = [&](Open& bucket) {
    if (!bucket.members.empty()) buckets.emplace_back(parameters, std::exchange(bucket, {}).members);
  };
  for (size_t i = parameters.size(); i-- > 0;) {
    const auto bytes = static_cast<int64_t>(parameters[i].tensor.nbytes());
    Open& bucket = open[parameters[i].tensor.scalar_type()];
    if (bucket.bytes + bytes > most_bytes) close(bucket);
    bucket.members.push_back(i);
    bucket.bytes += bytes;
  }
  for (auto& [type, bucket] : open) close(bucket);
  return buckets;
}

}  // namespace

class DataParallel::State {
 public:
  State(torch::nn::Module& module, const Communicator& group, DataParallelOptions options)
      : module_(module), group_(group), options_(std::move(options)) {
    require(!options_.wire || at::isFloatingType(*options_.wire), [&] {
      return "DataParallel: expected a floating-point type as `wire`, got " +
             std::string(c10::toString(*options_.wire));
    });
    const Grid grid(group, {{"dp", group.size()}});
    const std::vector<nn::Parameter> all = nn::parameters_of(module, grid);
    for (const nn::Parameter& parameter : all) {
      require(static_cast<int>(nn::ranks_of_copies(parameter).size()) == group.size(), [&] {
        return "DataParallel: '" + parameter.name +
               "' does not have a copy on every rank of the group; use parallel::sum_gradients or parallel::Optimizer, "
               "which use its layout";
      });
      require(!is_trained(parameter) || !GradientHook::is_on(parameter.tensor),
              [&] { return "DataParallel: '" + parameter.name + "' already belongs to another DataParallel"; });
      if (is_trained(parameter))
        parameters_.push_back(parameter);
      else if (!parameter.is_buffer)
        frozen_.push_back(parameter);
    }
    check_same_module(all, "DataParallel", group);
    broadcast_parameters(module, group);
    for (Bucket& bucket : reversed_buckets(parameters_, options_.bucket_bytes)) sums_.push_back({std::move(bucket)});
    weights_.resize(parameters_.size());
    for (size_t sum = 0; sum < sums_.size(); ++sum)
      for (const size_t i : sums_[sum].bucket.members()) weights_[i].sum = sum;
    using Overlap = DataParallelOptions::Overlap;
    const bool overlaps =
        options_.overlap == Overlap::on || (options_.overlap == Overlap::automatic && group.backend()->spans_hosts());
    if (overlaps && group.size() > 1) stream_ = group.stream();
    for (size_t i = 0; i < parameters_.size(); ++i) hooks_.emplace_back(parameters_[i].tensor, [this, i] { added(i); });
  }

  State(const State&) = delete;
  State& operator=(const State&) = delete;

  double backward(const at::Tensor& loss, int64_t samples, const Backward& options) {
    require(samples >= 0,
            [&] { return "DataParallel::backward: expected 0 samples or more, got " + std::to_string(samples); });
    require(samples == 0 || (loss.defined() && loss.numel() == 1), [&] {
      return "DataParallel::backward: expected the mean loss, a single number, got " +
             (loss.defined() ? c10::str(loss.sizes()) : std::string("an undefined tensor"));
    });
    bool done = false;
    const auto end = c10::make_scope_exit([&] {
      now_ = Now::idle;
      if (!done) put_earlier_gradients_back();
    });
    const bool adds = samples_ > 0;
    if (!began_) set_earlier_gradients_aside();
    const double mean = samples == 0 ? 0 : loss.item().toDouble();
    samples_ += samples;
    losses_ += samples == 0 ? 0 : mean * static_cast<double>(samples);
    if (!options.last) {
      now_ = Now::adding;
      run(loss, samples, static_cast<double>(samples), options);
      done = true;
      return mean;
    }
    const auto [all_samples, all_losses] = sum_over_ranks();
    scale_ = adds && all_samples > 0 ? 1 / all_samples : 1;
    for (Sum& sum : sums_) sum.missing = sum.bucket.members().size();
    next_ = 0;
    now_ = Now::summing;
    run(loss, samples, adds ? static_cast<double>(samples) : static_cast<double>(samples) / all_samples, options);
    const at::NoGradGuard no_gradient;
    while (next_ < sums_.size()) begin_sum(sums_[next_++]);
    finish();
    if (all_samples > 0)
      join_buffers(module_, static_cast<double>(samples_) / all_samples, first_with_samples_, group_);
    forget();
    done = true;
    return all_samples > 0 ? all_losses / all_samples : 0;
  }

  bool any(bool here) const { return largest_of_all(here ? 1 : 0, group_) != 0; }

 private:
  enum class Now : uint8_t { idle, adding, summing };

  struct Weight {
    size_t sum = 0;
    at::Tensor before;    // its gradient when the first backward began
    at::Tensor gradient;  // taken from .grad, then summed
    int times = 1;        // how often its gradient was added to in the last step's last backward
    int added = 0;        // how often in this one
    bool used = false, late = false, sparse = false;
  };

  /// A bucket that is being summed.
  struct Sum {
    Bucket bucket;
    size_t missing = 0;  // number of members whose gradients are not complete
    at::Tensor packed{}, wire{};
    std::optional<Handle> handle{};
  };

  void set_earlier_gradients_aside() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      at::Tensor& gradient = parameters_[i].tensor.mutable_grad();
      weights_[i].before = gradient;
      gradient.reset();
    }
    began_ = true;
  }

  void put_earlier_gradients_back() {
    for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].tensor.mutable_grad() = weights_[i].before;
    for (Sum& sum : sums_) sum.handle.reset();
    forget();
  }

  void run(const at::Tensor& loss, int64_t samples, double weight, const Backward& options) {
    for (Weight& w : weights_) w.added = 0;
    if (samples == 0) return;
    torch::autograd::backward({loss}, {at::full_like(loss, weight)}, options.retain_graph);
  }

  /// The samples and losses of all ranks. Throws where a rank has a parameter that was frozen and no longer is.
  std::pair<double, double> sum_over_ranks() {
    const auto thawed = std::find_if(frozen_.begin(), frozen_.end(), is_trained);
    std::vector<double> mine{static_cast<double>(samples_), losses_, static_cast<double>(frozen_.end() - thawed)};
    const std::vector<int64_t> counts(static_cast<size_t>(group_.size()), std::ssize(mine));
    std::vector<double> all(mine.size() * counts.size());
    group_.all_gather(buffer(mine), buffer(all), counts);
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
      return "DataParallel: '" + (frozen_.end() - static_cast<int64_t>(first_thawed))->name +
             "' did not require gradients when DataParallel was made, but does now: make a new DataParallel";
    });
    return sums;
  }

  void added(size_t i) {
    require(now_ != Now::idle, [&] {
      return "DataParallel: the gradient of '" + parameters_[i].name +
             "' was computed on this rank alone: call DataParallel::backward(mean_loss, samples) instead of the "
             "loss's own backward, or torch::autograd::grad for gradients that you differentiate again";
    });
    if (!parameters_[i].tensor.grad().defined()) return;  // LibTorch calls the hook for gradients that do not exist too
    Weight& weight = weights_[i];
    weight.used = true;
    weight.sparse |= parameters_[i].tensor.grad().is_sparse();
    if (now_ == Now::adding) return;
    if (weight.sum < next_) {
      weight.late = true;  // its bucket was already sent: what is added now is summed after it
      ++weight.added;
      return;
    }
    if (++weight.added != weight.times) return;
    --sums_[weight.sum].missing;
    const at::NoGradGuard no_gradient;
    // In one order on all ranks, whatever the order of their backward is.
    while (next_ < sums_.size() && sums_[next_].missing == 0) begin_sum(sums_[next_++]);
  }

  /// The gradient taken from .grad, or zeros; it may be written to.
  at::Tensor taken_gradient(size_t i) {
    at::Tensor& gradient = parameters_[i].tensor.mutable_grad();
    if (!gradient.defined() || weights_[i].sparse) return at::zeros_like(parameters_[i].tensor).contiguous();
    const at::Tensor taken = plain("DataParallel", gradient).contiguous();
    gradient.reset();
    if (scale_ != 1) taken.mul_(scale_);
    return taken;
  }

  void begin_sum(Sum& sum) {
    std::vector<at::Tensor> gradients(parameters_.size());
    for (const size_t i : sum.bucket.members()) gradients[i] = weights_[i].gradient = taken_gradient(i);
    if (group_.size() == 1) return;
    sum.packed = sum.bucket.pack(gradients);
    const bool is_cast =
        options_.wire && (sum.packed.scalar_type() == at::kFloat || sum.packed.scalar_type() == at::kDouble);
    sum.wire = is_cast ? sum.packed.to(*options_.wire) : sum.packed;
    if (stream_)
      sum.handle = stream_->all_reduce(buffer_of_reals(sum.wire));
    else
      group_.all_reduce(buffer_of_reals(sum.wire));
  }

  void finish() {
    std::vector<at::Tensor> gradients;
    for (const Weight& weight : weights_) gradients.push_back(weight.gradient);
    for (Sum& sum : sums_) {
      if (sum.handle) std::exchange(sum.handle, std::nullopt)->wait();
      if (group_.size() > 1) {
        if (!sum.wire.is_same(sum.packed)) sum.packed.copy_(sum.wire);
        sum.bucket.unpack(sum.packed, gradients);
      }
      sum.wire = sum.packed = at::Tensor();
    }
    join_flags();
    for (size_t i = 0; i < parameters_.size(); ++i) {
      Weight& weight = weights_[i];
      if (weight.late) {
        const at::Tensor rest = taken_gradient(i);
        group_.all_reduce(buffer_of_reals(rest));
        weight.gradient.add_(rest);
      }
      at::Tensor& gradient = parameters_[i].tensor.mutable_grad();
      gradient = weight.used ? weight.gradient : weight.before;
      if (weight.used && weight.before.defined()) gradient.add_(weight.before);
    }
  }

  /// A flag of a weight that is true on any rank becomes true on all.
  void join_flags() {
    std::vector<uint8_t> flags;
    for (const Weight& weight : weights_) flags.insert(flags.end(), {weight.used, weight.late, weight.sparse});
    group_.all_reduce(buffer(flags), Reduction::max);
    for (size_t i = 0; i < weights_.size(); ++i) {
      weights_[i].used = flags[3 * i] != 0;
      weights_[i].late = flags[3 * i + 1] != 0;
      weights_[i].sparse = flags[3 * i + 2] != 0;
    }
    for (size_t i = 0; i < weights_.size(); ++i)
      require(!weights_[i].sparse, [&] {
        return "DataParallel: the gradient of '" + parameters_[i].name +
               "' is sparse; sparse gradients cannot be summed over ranks";
      });
  }

  void forget() {
    for (Weight& weight : weights_) {
      weight.before.reset();
      weight.gradient.reset();
      if (weight.added > 0) weight.times = weight.added;
      weight.used = weight.late = weight.sparse = false;
    }
    samples_ = 0;
    losses_ = 0;
    began_ = false;
  }

  torch::nn::Module& module_;
  Communicator group_;
  DataParallelOptions options_;
  std::optional<AsyncCommunicator> stream_;
  std::vector<nn::Parameter> parameters_, frozen_;
  std::vector<Weight> weights_;     // for each of parameters_
  std::deque<GradientHook> hooks_;  // on them
  std::vector<Sum> sums_;           // in the order in which they are reduced
  size_t next_ = 0;                 // index of the first sum that has not begun
  Now now_ = Now::idle;
  double scale_ = 1;     // for gradients that were added up over several calls
  bool began_ = false;   // whether gradients were set aside
  int64_t samples_ = 0;  // of this rank, in the calls since the last update
  double losses_ = 0;
  int first_with_samples_ = -1;
};

DataParallel::DataParallel(torch::nn::Module& module, const Communicator& group, DataParallelOptions options)
    : state_(std::make_unique<State>(module, group, std::move(options))) {}
DataParallel::~DataParallel() = default;
DataParallel::DataParallel(DataParallel&&) noexcept = default;
DataParallel& DataParallel::operator=(DataParallel&&) noexcept = default;

double DataParallel::backward(const at::Tensor& mean_loss, int64_t samples, Backward options) {
  return state_->backward(mean_loss, samples, options);
}

bool DataParallel::any(bool here) const {
  return state_->any(here);
}

}  // namespace adjoin::parallel
