#include "adjoin/parallel/optimizer.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/nn/state.hpp"
#include "adjoin/parallel/copies.hpp"
#include "adjoin/partition/shard.hpp"

namespace adjoin::parallel {
namespace {

// Elements that are updated at once: their gradients, which are clipped first, are still in a cache then.
constexpr int64_t kAtOnce = 1 << 18;

/// Whether this worker is the first of those that hold the parameter replicated.
bool counts_replicas(const nn::Parameter& parameter) {
  const GridShape& grid = parameter.layout.grid();
  const std::vector<int> coordinates = grid.coordinates(grid.cell_of(parameter.grid.world().rank()).value());
  for (const std::string& axis : parameter.layout.axes(Kind::replicated))
    if (coordinates[static_cast<size_t>(grid.axis_index(axis))] != 0) return false;
  return true;
}

/// The workers of all parameters' layouts, in the order of their ranks.
Communicator workers_of(const std::vector<nn::Parameter>& parameters) {
  std::vector<int> ranks;
  for (const nn::Parameter& parameter : parameters) {
    std::vector<int> held_by = parameter.layout.grid().ranks();
    std::sort(held_by.begin(), held_by.end());
    require(ranks.empty() || ranks == held_by, [&] {
      return "Optimizer: expected parameters that lie on the same workers, got " + parameter.name + " on other ones";
    });
    ranks = std::move(held_by);
  }
  return ranks.size() > 1 ? parameters.front().grid.group_of(ranks) : Communicator();
}

at::Tensor gradient_of(const nn::Parameter& parameter) {
  const at::Tensor& gradient = parameter.tensor.grad();
  return (gradient.defined() ? gradient : at::zeros_like(parameter.tensor)).reshape({-1});
}

}  // namespace

Optimizer::Optimizer(std::vector<nn::Parameter> parameters, Rule rule, OptimizerOptions options)
    : rule_(std::move(rule)), options_(std::move(options)), steps_(at::full({}, 0, at::kLong)) {
  const at::NoGradGuard no_gradient;
  std::erase_if(parameters, [](const nn::Parameter& parameter) { return !is_trained(parameter); });
  for (nn::Parameter& parameter : parameters) {
    at::Tensor& tensor = parameter.tensor;
    require(tensor.scalar_type() == parameters.front().tensor.scalar_type(), [&] {
      return "Optimizer: expected parameters of one element type, got " + parameter.name + " of another";
    });
    const int rank = parameter.grid.world().rank();
    require(parameter.layout.grid().cell_of(rank).has_value(), [&] {
      return "Optimizer: expected parameters of which this worker holds a part, got " + parameter.name +
             " on other ones";
    });
    if (!tensor.is_contiguous()) tensor.set_data(tensor.contiguous());
    const Communicator copies = nn::copies_of(parameter);
    shards_.push_back({parameter, shard_of(tensor, copies.rank(), copies.size()), counts_replicas(parameter)});
    const Layout layout = sharded(parameter.layout);
    for (const std::string& moment : rule_.moments)
      moments_.push_back({moment + "." + parameter.name, at::zeros(layout.shape_on(rank), tensor.options()), layout,
                          parameter.grid, std::nullopt});
  }
  buckets_ = buckets_of(parameters);
  workers_ = options_.workers ? *options_.workers : workers_of(parameters);
}

Update Optimizer::step(double learning_rate, double loss_scale) {
  const at::NoGradGuard no_gradient;
  if (std::exchange(options_.compares_copies, false)) {
    std::vector<nn::Parameter> parameters;
    for (const Shard& shard : shards_) parameters.push_back(shard.parameter);
    check_copies(parameters, "Optimizer");
  }
  const std::vector<at::Tensor> gradients = reduced_gradients();
  const double norm = global_norm(gradients) / loss_scale;
  const bool is_finite = std::isfinite(norm);
  if (is_finite) {
    steps_.add_(1);
    update(gradients, (options_.clip > 0 && norm > options_.clip ? options_.clip / norm : 1) / loss_scale,
           learning_rate);
    gather_weights();
  }
  for (const Shard& shard : shards_) shard.parameter.tensor.mutable_grad().reset();
  return {.norm = norm, .skipped = !is_finite};
}

std::vector<at::Tensor> Optimizer::reduced_gradients() const {
  std::vector<at::Tensor> gradients;
  for (const Shard& shard : shards_) gradients.push_back(gradient_of(shard.parameter));
  for (const Bucket& bucket : buckets_) {
    const at::Tensor packed = bucket.pack(gradients), mine = bucket.mine(packed);
    bucket.copies().reduce_scatter(buffer(packed), buffer(mine), bucket.sizes());
    bucket.take_shards(packed, gradients);
  }
  return gradients;
}

double Optimizer::global_norm(const std::vector<at::Tensor>& gradients) const {
  std::array<double, 1> squares{};
  for (size_t i = 0; i < shards_.size(); ++i) {
    // The squares of 16-bit floats would soon be infinite in their own type.
    const auto type = c10::elementSize(gradients[i].scalar_type()) < 4 ? at::kFloat : gradients[i].scalar_type();
    const double norm = at::linalg_vector_norm(gradients[i], 2, {}, /*keepdim=*/false, type).item<double>();
    if (shards_[i].counts || !std::isfinite(norm)) squares[0] += norm * norm;  // a replica's fault is everybody's
  }
  workers_.all_reduce(buffer(squares));
  return std::sqrt(squares[0]);
}

void Optimizer::update(const std::vector<at::Tensor>& gradients, double factor, double learning_rate) {
  const int64_t number = steps_taken();
  for (size_t i = 0; i < shards_.size(); ++i) {
    const auto& [parameter, range, counts] = shards_[i];
    const at::Tensor values = parameter.tensor.detach().view({-1}).narrow(0, range.begin, range.size());
    for (int64_t begin = 0; begin < range.size(); begin += kAtOnce) {
      const auto piece_of = [&](const at::Tensor& x) {
        return x.view({-1}).narrow(0, begin, std::min(kAtOnce, range.size() - begin));
      };
      FlatPiece piece{piece_of(values), piece_of(gradients[i]), {}};
      for (size_t which = 0; which < rule_.moments.size(); ++which)
        piece.moments.push_back(piece_of(moments_[i * rule_.moments.size() + which].tensor));
      if (factor != 1) piece.gradient.mul_(factor);
      const bool decays = parameter.tensor.dim() > 1;
      rule_.update(piece, {.number = number, .rate = learning_rate, .decay = decays ? options_.weight_decay : 0.0});
    }
  }
}

void Optimizer::gather_weights() const {
  std::vector<at::Tensor> values;
  for (const Shard& shard : shards_) values.push_back(shard.parameter.tensor.detach());
  for (const Bucket& bucket : buckets_) {
    const at::Tensor packed = bucket.pack(values);
    bucket.copies().all_gather(buffer(bucket.mine(packed)), buffer(packed), bucket.sizes());
    bucket.unpack(packed, values);
  }
}

int64_t Optimizer::moment_bytes() const {
  int64_t bytes = 0;
  for (const nn::Parameter& moment : moments_) bytes += static_cast<int64_t>(moment.tensor.nbytes());
  return bytes;
}

int64_t Optimizer::steps_taken() const {
  return steps_.item<int64_t>();
}

void Optimizer::set_steps_taken(int64_t steps) {
  steps_.fill_(steps);
}

std::vector<nn::Parameter> Optimizer::state() const {
  std::vector<nn::Parameter> pieces = moments_;
  if (!shards_.empty()) pieces.push_back(nn::held_by_all("steps", steps_, shards_.front().parameter.grid));
  return pieces;
}

}  // namespace adjoin::parallel
