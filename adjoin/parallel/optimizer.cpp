#include "adjoin/parallel/optimizer.hpp"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/nn/fixed/elementwise.hpp"
#include "adjoin/nn/fixed/squares.hpp"
#include "adjoin/nn/state.hpp"
#include "adjoin/parallel/arriving_weights.hpp"
#include "adjoin/parallel/copies.hpp"
#include "adjoin/parallel/whole_matrices.hpp"
#include "adjoin/partition/shard.hpp"

namespace adjoin::parallel {

bool takes_matrices(const Rule& rule, const nn::Parameter& parameter) {
  return rule.of_matrices && !parameter.matrices.empty() && !parameter.tensor.is_complex();
}

Rule adamw(AdamWOptions options) {
  return {"adamw", {"first", "second"}, [options](const FlatPiece& piece, const UpdateStep& step) {
            const at::Tensor number =
                at::full({}, static_cast<double>(step.number), piece.value.options().dtype(at::kFloat));
            at::_fused_adamw_(piece.value, piece.gradient, piece.moments[0], piece.moments[1], /*max_exp_avg_sqs=*/{},
                              number, step.rate, options.beta1, options.beta2, step.decay, options.epsilon,
                              /*amsgrad=*/false, /*maximize=*/false);
          }};
}

Rule sgd(SgdOptions options) {
  require(options.momentum >= 0 && options.momentum < 1,
          [&] { return "sgd: expected a momentum in [0, 1), got " + std::to_string(options.momentum); });
  require(!options.nesterov || options.momentum > 0, "sgd: Nesterov's momentum expects a momentum above 0");
  std::vector<std::string> moments;
  if (options.momentum > 0) moments.emplace_back("momentum");
  return {"sgd", std::move(moments), [options](const FlatPiece& piece, const UpdateStep& step) {
            at::_fused_sgd_(piece.value, piece.gradient, piece.moments, step.decay, options.momentum, step.rate,
                            /*dampening=*/0, options.nesterov, /*maximize=*/false, /*is_first_step=*/false);
          }};
}

namespace {

// Elements that are updated at once: their gradients, which are clipped first, are then still in a cache.
constexpr int64_t kAtOnce = 1 << 18;

// Elements of a message of small parameters: the packed copies of one at a time are small.
constexpr int64_t kMessage = 1 << 18;

/// The bucket's parameters in the same order, in the buckets in which they are sent.
std::vector<std::unique_ptr<BucketSum>> sums_of(const Bucket& bucket, const std::vector<nn::Parameter>& whole,
                                                const std::vector<nn::Parameter>& in_reals,
                                                const std::function<BucketSum::When(const nn::Parameter&)>& when_of,
                                                const std::optional<HeldLanes>& lanes) {
  std::vector<std::unique_ptr<BucketSum>> sums;
  const auto add = [&](std::vector<size_t> members) {
    auto when = when_of(whole[members[0]]);
    for (const size_t i : members)
      if (when_of(whole[i]) == BucketSum::When::asked) when = BucketSum::When::asked;
    sums.push_back(
        std::make_unique<BucketSum>(whole, Bucket(in_reals, std::move(members), bucket.is_cut()), when, lanes));
  };
  std::vector<size_t> members;
  int64_t elements = 0;
  for (const size_t i : bucket.members()) {
    const int64_t more = in_reals[i].tensor.numel();
    if (!members.empty() && elements + more > kMessage && bucket.copies().size() > 1) {
      add(std::exchange(members, {}));
      elements = 0;
    }
    members.push_back(i);
    elements += more;
  }
  add(std::move(members));
  return sums;
}

FlatPiece part_of(const FlatPiece& piece, int64_t begin, int64_t size) {
  const auto part = [=](const at::Tensor& x) { return x.narrow(0, begin, size); };
  FlatPiece result{piece.value.defined() ? part(piece.value) : piece.value, part(piece.gradient), {}};
  for (const at::Tensor& moment : piece.moments) result.moments.push_back(part(moment));
  return result;
}

/// Calls `work` for parts of equal tensors, one after another.
void in_pieces(const FlatPiece& whole, const std::function<void(const FlatPiece&)>& work) {
  for (int64_t begin = 0; begin < whole.gradient.numel(); begin += kAtOnce)
    work(part_of(whole, begin, std::min(kAtOnce, whole.gradient.numel() - begin)));
}

/// Updates a piece so that an element's bits do not depend on where the piece ends.
void update_in_registers(const Rule& rule, const FlatPiece& piece, const UpdateStep& step) {
  std::vector<at::Tensor> all{piece.value};
  all.insert(all.end(), piece.moments.begin(), piece.moments.end());
  all.push_back(piece.gradient);
  nn::fixed::in_registers(all, all.size() - 1, [&](const std::vector<at::Tensor>& some) {
    rule.update({some.front(), some.back(), {some.begin() + 1, some.end() - 1}}, step);
  });
}

bool is_here(const nn::Parameter& parameter) {
  return parameter.layout.grid().cell_of(parameter.grid.world().rank()).has_value();
}

/// Whether this worker is the first of those along the axes on which a parameter is of this kind.
bool is_first(const nn::Parameter& parameter, Kind kind) {
  const GridShape& grid = parameter.layout.grid();
  const std::vector<int> coordinates = grid.coordinates(grid.cell_of(parameter.grid.world().rank()).value());
  return std::ranges::all_of(parameter.layout.axes(kind), [&](const std::string& axis) {
    return coordinates[static_cast<size_t>(grid.axis_index(axis))] == 0;
  });
}

/// The workers of all parameters' layouts, ordered by rank.
Communicator workers_of(const std::vector<nn::Parameter>& parameters) {
  std::vector<int> ranks;
  for (const nn::Parameter& parameter : parameters) {
    std::vector<int> held_by = parameter.layout.grid().ranks();
    std::sort(held_by.begin(), held_by.end());
    require(ranks.empty() || ranks == held_by, [&] {
      return "Optimizer: expected all parameters on the same workers, got " + parameter.name + " on other workers";
    });
    ranks = std::move(held_by);
  }
  return ranks.size() > 1 ? parameters.front().grid.group_of(ranks) : Communicator();
}

}  // namespace

Optimizer::Optimizer(std::vector<nn::Parameter> parameters, Rule rule, OptimizerOptions options)
    : rule_(std::move(rule)),
      options_(std::move(options)),
      parameters_(std::move(parameters)),
      steps_(at::full({}, 0, at::kLong)) {
  require(options_.zero >= 0 && options_.zero <= 2,
          [&] { return "Optimizer: expected zero from 0 to 2, got " + std::to_string(options_.zero); });
  const at::NoGradGuard no_gradient;
  std::erase_if(parameters_, [](const nn::Parameter& parameter) { return !is_trained(parameter); });
  if (!parameters_.empty()) grid_ = parameters_.front().grid;
  const std::vector<nn::Parameter> of_all_workers = parameters_;
  if (options_.workers) std::erase_if(parameters_, [](const nn::Parameter& parameter) { return !is_here(parameter); });
  std::vector<nn::Parameter> in_reals;
  for (nn::Parameter& parameter : parameters_) {
    at::Tensor& tensor = parameter.tensor;
    const at::Tensor& first = parameters_.front().tensor;
    require(c10::toRealValueType(tensor.scalar_type()) == c10::toRealValueType(first.scalar_type()), [&] {
      return "Optimizer: expected parameters of one element type, got " + parameter.name + " of another type";
    });
    require(is_here(parameter), [&] {
      return "Optimizer: expected parameters with a part on this worker, got " + parameter.name +
             " on other workers only";
    });
    check_plain(("Optimizer: '" + parameter.name + "'").c_str(), tensor);
    if (!tensor.is_contiguous()) tensor.set_data(tensor.contiguous());
    in_reals.push_back(reals_of(parameter));
  }
  const auto decays = [this](size_t i) { return parameters_[i].tensor.dim() > 1; };
  const auto kind = [&](const nn::Parameter& real) {
    const auto index = static_cast<size_t>(&real - in_reals.data());
    const nn::Parameter& p = parameters_[index];
    if (when_summed(p) == BucketSum::When::each_time) return 16 + static_cast<int>(index);  // alone
    return (takes_matrices(rule_, p) ? 8 : 0) + (p.tensor.is_complex() ? 4 : 0) +
           (is_first(p, Kind::replicated) ? 2 : 0) + (decays(index) && !options_.joins_decays ? 1 : 0);
  };
  for (const Bucket& bucket : buckets_of(in_reals, kind, [&](const nn::Parameter& real) {
         return is_cut(parameters_[static_cast<size_t>(&real - in_reals.data())]);
       })) {
    const nn::Parameter& first = parameters_[bucket.members()[0]];
    std::vector<size_t> members = bucket.members();
    std::ranges::stable_partition(members, decays);  // so that there are two runs at most
    const Bucket sorted(in_reals, std::move(members), bucket.is_cut());
    UpdateGroup& part =
        parts_.emplace_back(sorted, sorted.runs_of(decays), enters_norm(first), takes_matrices(rule_, first));
    part.sums =
        sums_of(part.bucket, parameters_, in_reals, std::bind_front(&Optimizer::when_summed, this), options_.lanes);
  }
  arriving_ = arriving_weights();
  workers_ = options_.workers ? *options_.workers : workers_of(parameters_);
  matrices_ = whole_matrices(parameters_, rule_);
  const auto has_matrices = [this](const nn::Parameter& parameter) { return takes_matrices(rule_, parameter); };
  require(!rule_.of_matrices || std::ranges::any_of(of_all_workers, has_matrices),
          [&] { return "Optimizer: the rule " + rule_.name + " is for matrices, and no trained parameter is one"; });
  if (rule_.of_matrices) make_moments(of_all_workers, rule_.of_matrices->moments, true);
  make_moments(of_all_workers, rule_.moments, false);
}

BucketSum::When Optimizer::when_summed(const nn::Parameter& parameter) const {
  const bool cuts = options_.zero == 2 && BucketSum::fits_each_time(parameter);
  const auto works_alike = [&](int rank) { return std::ranges::count(parameter.grid.workers(), rank) > 0; };
  const auto sums = [&] { return cuts && std::ranges::all_of(parameter.layout.grid().ranks(), works_alike); };
  if (!(options_.sums_in_backward ? options_.sums_in_backward(parameter) : sums())) return BucketSum::When::asked;
  if (cuts) return BucketSum::When::each_time;
  return !options_.lanes && nn::copies_of(parameter).backend()->spans_hosts() ? BucketSum::When::last_time
                                                                              : BucketSum::When::asked;
}

bool Optimizer::is_cut(const nn::Parameter& parameter) const {
  return options_.zero > 0 || takes_matrices(rule_, parameter);
}

/// Whether this worker is the first of those that have the same of the summed gradient.
bool Optimizer::enters_norm(const nn::Parameter& parameter) const {
  return is_first(parameter, Kind::replicated) && (is_cut(parameter) || is_first(parameter, Kind::copied));
}

void Optimizer::make_moments(const std::vector<nn::Parameter>& of_all_workers, const std::vector<std::string>& names,
                             bool of_matrices) {
  std::vector<Layout> layouts;
  for (const nn::Parameter& of : of_all_workers) layouts.push_back(is_cut(of) ? sharded(of.layout) : of.layout);
  for (const std::string& moment : names) {
    std::vector<at::Tensor> shards(parameters_.size());
    for (UpdateGroup& part : parts_) {
      if (part.has_matrices != of_matrices) continue;
      part.moments.push_back(at::zeros({part.bucket.size_here()}, reals_of(parameters_.front()).tensor.options()));
      part.bucket.take_shards(part.moments.back(), shards);
    }
    auto shard = shards.begin();
    for (size_t i = 0; i < of_all_workers.size(); ++i) {
      const nn::Parameter& of = of_all_workers[i];
      const at::Tensor here = is_here(of) ? *shard++ : at::Tensor();
      if (takes_matrices(rule_, of) != of_matrices) continue;
      const std::vector<int64_t> shape = layouts[i].shape_on(of.grid.world().rank());
      const at::Tensor tensor = is_here(of) ? of_reals(here, shape, of.tensor.is_complex()) : of.tensor.detach();
      moments_.push_back({moment + "." + of.name, tensor, layouts[i], of.grid, std::nullopt});
    }
  }
}

Update Optimizer::step(double learning_rate, double loss_scale) {
  const at::NoGradGuard no_gradient;
  settle();
  if (std::exchange(options_.compares_copies, false)) check_copies(parameters_, "Optimizer");
  const std::vector<at::Tensor> gradients = reduced_gradients();
  const double norm = (options_.lanes ? fixed_norm(gradients) : global_norm(gradients)) / loss_scale;
  const bool is_finite = std::isfinite(norm);
  if (is_finite) {
    const double factor = (options_.clip > 0 && norm > options_.clip ? options_.clip / norm : 1) / loss_scale;
    steps_.add_(1);
    std::vector<at::Tensor> weights;
    for (const nn::Parameter& parameter : parameters_) weights.push_back(reals_of(parameter.tensor.detach()));
    if (!matrices_.empty()) solve_matrices(gradients, factor);
    for (size_t i = 0; i < parts_.size(); ++i) update(parts_[i], gradients[i], factor, learning_rate, weights);
    if (!options_.weights_arrive_later) settle();
  }
  return {.norm = norm, .skipped = !is_finite};
}

std::vector<at::Tensor> Optimizer::reduced_gradients() {
  std::vector<at::Tensor> reduced;
  for (UpdateGroup& part : parts_) {
    std::vector<at::Tensor> shards;
    for (const auto& sum : part.sums) shards.push_back(part.sums.size() == 1 ? sum->take() : sum->take().clone());
    reduced.push_back(shards.size() == 1 ? shards[0] : at::cat(shards));
  }
  return reduced;
}

double Optimizer::global_norm(const std::vector<at::Tensor>& gradients) const {
  std::array<double, 1> squares{};
  std::vector<at::Tensor> of_parts;
  for (const at::Tensor& gradient : gradients) {
    // The squares of 16-bit floats would soon overflow in their own type.
    const auto type = c10::elementSize(gradient.scalar_type()) < 4 ? at::kFloat : gradient.scalar_type();
    of_parts.push_back(at::linalg_vector_norm(gradient, 2, {}, /*keepdim=*/false, type));
  }
  // On a device the host waits once.
  const at::Tensor norms = of_parts.empty() ? at::empty({0}, at::kDouble) : at::stack(of_parts).cpu().to(at::kDouble);
  for (size_t i = 0; i < parts_.size(); ++i) {
    const double norm = norms[static_cast<int64_t>(i)].item<double>();
    if (parts_[i].enters_norm || !std::isfinite(norm))
      squares[0] += norm * norm;  // an error in one replica must reach all
  }
  workers_.all_reduce(buffer(squares));
  return std::sqrt(squares[0]);
}

double Optimizer::fixed_norm(const std::vector<at::Tensor>& gradients) const {
  std::array<double, 1> largest{};
  for (const at::Tensor& gradient : gradients) largest[0] = std::max(largest[0], nn::fixed::largest_of(gradient));
  workers_.all_reduce(buffer(largest), Reduction::max);
  if (!std::isfinite(largest[0])) return largest[0];
  nn::fixed::Squares squares(largest[0]);
  for (size_t i = 0; i < parts_.size(); ++i)
    if (parts_[i].enters_norm) squares.add(gradients[i]);
  workers_.all_reduce(buffer(squares.sums));
  return std::sqrt(squares.total());
}

void Optimizer::solve_matrices(const std::vector<at::Tensor>& gradients, double factor) const {
  std::vector<at::Tensor> shards(parameters_.size());
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (!parts_[i].has_matrices) continue;
    in_pieces({{}, gradients[i], parts_[i].moments}, [&](const FlatPiece& piece) {
      if (factor != 1) piece.gradient.mul_(factor);
      rule_.of_matrices->prepare(piece);
    });
    parts_[i].bucket.take_shards(gradients[i], shards);
  }
  for (const auto& matrices : matrices_) matrices->solve(shards, *rule_.of_matrices);
}

void Optimizer::update(const UpdateGroup& part, const at::Tensor& gradient, double factor, double learning_rate,
                       const std::vector<at::Tensor>& weights) const {
  const bool is_one = part.sums.size() == 1;
  const at::Tensor all = is_one ? part.bucket.pack(weights) : at::Tensor(),
                   values = is_one ? part.bucket.mine(all) : at::empty({part.bucket.size_here()}, gradient.options());
  const auto in_turn = [&](const auto& work) {  // for each message, with its part of the values
    int64_t before = 0;
    for (const auto& sum : part.sums) {
      const Bucket& message = sum->bucket();
      work(message, values.narrow(0, before, message.size_here()));
      before += message.size_here();
    }
  };
  if (!is_one)
    in_turn([&](const Bucket& message, const at::Tensor& mine) { mine.copy_(message.mine(message.pack(weights))); });
  for (int64_t begin = 0; const Bucket::Run& run : part.runs) {
    const UpdateStep step{steps_taken(), learning_rate, run.holds ? options_.weight_decay : 0};
    in_pieces(part_of({values, gradient, part.moments}, begin, run.elements), [&](const FlatPiece& piece) {
      if (part.has_matrices) return rule_.of_matrices->update(piece, step);
      if (factor != 1) piece.gradient.mul_(factor);
      options_.lanes ? update_in_registers(rule_, piece, step) : rule_.update(piece, step);
    });
    begin += run.elements;
  }
  in_turn([&](const Bucket& message, const at::Tensor& mine) {
    const at::Tensor packed = is_one ? all : message.pack(weights);
    if (travel(part)) return arriving_->begin(message, mine, packed, weights);  // beside the next update
    if (is_gathered(message))
      message.copies().all_gather(buffer(mine), buffer(packed), message.sizes());
    else if (!is_one)
      packed.copy_(mine);
    message.unpack(packed, weights);
  });
}

std::shared_ptr<ArrivingWeights> Optimizer::arriving_weights() const {
  std::vector<const Bucket*> messages;
  for (const UpdateGroup& part : parts_)
    if (travel(part)) messages.push_back(&part.sums[0]->bucket());
  if (messages.empty()) return nullptr;
  std::vector<at::Tensor> weights;
  for (const nn::Parameter& parameter : parameters_) weights.push_back(parameter.tensor);
  return std::make_shared<ArrivingWeights>(weights, messages, options_.weights_arrive_later);
}

void Optimizer::settle() const {
  if (arriving_) arriving_->finish();
}

int64_t Optimizer::moment_bytes() const {
  int64_t bytes = 0;
  for (const nn::Parameter& moment : moments_) bytes += static_cast<int64_t>(moment.tensor.nbytes());
  return bytes;
}

std::vector<at::Tensor> Optimizer::tensors() const {
  std::vector<at::Tensor> all;
  for (const nn::Parameter& parameter : parameters_) all.push_back(parameter.tensor);
  return all;
}

int64_t Optimizer::steps_taken() const {
  return steps_.item<int64_t>();
}

void Optimizer::set_steps_taken(int64_t steps) {
  steps_.fill_(steps);
}

std::vector<nn::Parameter> Optimizer::state() const {
  std::vector<nn::Parameter> pieces = moments_;
  if (grid_) pieces.push_back(nn::held_by_all("steps", steps_, *grid_));
  return pieces;
}

}  // namespace adjoin::parallel
