#include "adjoin/parallel/optimizer.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/exchange.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/parallel/copies.hpp"

namespace adjoin::parallel {
namespace {

// A parameter of at least so many elements travels alone, without a copy; the cost of a message is then small beside
// it.
constexpr int64_t kLarge = 1 << 16;

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

std::vector<int> sorted(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

at::Tensor gradient_of(const nn::Parameter& parameter) {
  const at::Tensor& gradient = parameter.tensor.grad();
  return (gradient.defined() ? gradient : at::zeros_like(parameter.tensor)).reshape({-1});
}

}  // namespace

Optimizer::Optimizer(std::vector<nn::Parameter> parameters, Rule rule, OptimizerOptions options)
    : rule_(std::move(rule)), options_(options) {
  // Of one bucket: those that the same workers hold copies of, and that this one counts in the norm or leaves to others.
  std::map<std::tuple<std::vector<int>, bool, bool>, Bucket> small;
  std::optional<at::ScalarType> type;
  std::vector<int> ranks;
  std::optional<Grid> grid;  // the first one's: all workers see the parameters in one order, but buckets in another
  for (nn::Parameter& parameter : parameters) {
    if (parameter.is_buffer || !parameter.tensor.requires_grad()) continue;
    if (!type) type = parameter.tensor.scalar_type();
    if (!grid) grid = parameter.grid;
    require(parameter.tensor.scalar_type() == *type, [&] {
      return "Optimizer: expected parameters of one element type, got " + parameter.name + " of another";
    });
    const std::vector<int> held_by = sorted(parameter.layout.grid().ranks());
    require(ranks.empty() || ranks == held_by, [&] {
      return "Optimizer: expected parameters that lie on the same workers, got " + parameter.name + " on other ones";
    });
    ranks = held_by;
    require(parameter.layout.grid().cell_of(parameter.grid.world().rank()).has_value(), [&] {
      return "Optimizer: expected parameters of which this worker holds a part, got " + parameter.name +
             " on other ones";
    });
    const bool decays = parameter.tensor.dim() > 1;
    const bool is_large = parameter.tensor.numel() >= kLarge;
    Bucket single;
    const bool counts = counts_replicas(parameter);
    Bucket& bucket = is_large ? single : small[{nn::ranks_of_copies(parameter), counts, decays}];
    if (bucket.parameters.empty()) {
      bucket.decays = decays;
      bucket.counts = counts;
      bucket.copies = nn::copies_of(parameter);
    }
    bucket.parameters.push_back(std::move(parameter));
    if (is_large) add(std::move(single));
  }
  for (auto& [key, bucket] : small) add(std::move(bucket));
  if (ranks.size() > 1) workers_ = grid->group_of(ranks);
}

void Optimizer::add(Bucket bucket) {
  const at::NoGradGuard no_gradient;
  if (bucket.parameters.size() == 1) {
    at::Tensor& tensor = bucket.parameters[0].tensor;
    if (!tensor.is_contiguous()) tensor.set_data(tensor.contiguous());
    bucket.values = tensor.detach().view({-1});
  } else {
    std::vector<at::Tensor> pieces;
    for (const nn::Parameter& parameter : bucket.parameters) pieces.push_back(parameter.tensor.detach().reshape({-1}));
    bucket.values = at::cat(pieces);
    int64_t begin = 0;
    for (nn::Parameter& parameter : bucket.parameters) {
      const int64_t count = parameter.tensor.numel();
      parameter.tensor.set_data(bucket.values.narrow(0, begin, count).view(parameter.tensor.sizes()));
      begin += count;
    }
  }
  bucket.split = Split::balanced(bucket.values.numel(), bucket.copies.size(), 0);
  for (size_t i = 0; i < rule_.moments.size(); ++i)
    bucket.moments.push_back(at::zeros({bucket.split->size(bucket.copies.rank())}, bucket.values.options()));
  buckets_.push_back(std::move(bucket));
}

Update Optimizer::step(double learning_rate, double loss_scale) {
  const at::NoGradGuard no_gradient;
  if (std::exchange(options_.compares_copies, false)) check_copies(parameters(), "Optimizer");
  std::vector<at::Tensor> gradients;
  for (const Bucket& bucket : buckets_) gradients.push_back(reduced_gradients(bucket));
  const double norm = global_norm(gradients) / loss_scale;
  const bool is_finite = std::isfinite(norm);
  if (is_finite) {
    ++steps_;
    update(gradients, (options_.clip > 0 && norm > options_.clip ? options_.clip / norm : 1) / loss_scale,
           learning_rate);
    gather_weights();
  }
  for (const Bucket& bucket : buckets_)
    for (const nn::Parameter& parameter : bucket.parameters) parameter.tensor.mutable_grad().reset();
  return {.norm = norm, .skipped = !is_finite};
}

at::Tensor Optimizer::reduced_gradients(const Bucket& bucket) const {
  std::vector<at::Tensor> pieces;
  for (const nn::Parameter& parameter : bucket.parameters) pieces.push_back(gradient_of(parameter));
  const at::Tensor whole = pieces.size() == 1 ? pieces[0] : at::cat(pieces);
  const at::Tensor part = bucket.part(whole);
  if (bucket.copies.size() > 1) bucket.copies.reduce_scatter(buffer(whole), buffer(part), bucket.split->sizes());
  return part;
}

double Optimizer::global_norm(const std::vector<at::Tensor>& gradients) const {
  std::array<double, 1> squares{};
  for (size_t i = 0; i < buckets_.size(); ++i) {
    // The squares of 16-bit floats would soon be infinite in their own type.
    const auto type = c10::elementSize(gradients[i].scalar_type()) < 4 ? at::kFloat : gradients[i].scalar_type();
    const double norm = at::linalg_vector_norm(gradients[i], 2, {}, /*keepdim=*/false, type).item<double>();
    if (buckets_[i].counts || !std::isfinite(norm)) squares[0] += norm * norm;  // a replica's fault is everybody's
  }
  workers_.all_reduce(buffer(squares));
  return std::sqrt(squares[0]);
}

void Optimizer::update(const std::vector<at::Tensor>& gradients, double factor, double learning_rate) {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& bucket = buckets_[i];
    const at::Tensor values = bucket.part(bucket.values);
    for (int64_t begin = 0; begin < values.numel(); begin += kAtOnce) {
      const auto piece_of = [&](const at::Tensor& x) {
        return x.narrow(0, begin, std::min(kAtOnce, x.numel() - begin));
      };
      FlatPiece piece{piece_of(values), piece_of(gradients[i]), {}};
      for (const at::Tensor& moment : bucket.moments) piece.moments.push_back(piece_of(moment));
      if (factor != 1) piece.gradient.mul_(factor);
      rule_.update(piece,
                   {.number = steps_, .rate = learning_rate, .decay = bucket.decays ? options_.weight_decay : 0.0});
    }
  }
}

void Optimizer::gather_weights() const {
  for (const Bucket& bucket : buckets_)
    if (bucket.copies.size() > 1)
      bucket.copies.all_gather(buffer(bucket.part(bucket.values)), buffer(bucket.values), bucket.split->sizes());
}

int64_t Optimizer::moment_bytes() const {
  int64_t bytes = 0;
  for (const Bucket& bucket : buckets_)
    for (const at::Tensor& moment : bucket.moments) bytes += static_cast<int64_t>(moment.nbytes());
  return bytes;
}

std::vector<nn::Parameter> Optimizer::parameters() const {
  std::vector<nn::Parameter> all;
  for (const Bucket& bucket : buckets_) all.insert(all.end(), bucket.parameters.begin(), bucket.parameters.end());
  return all;
}

at::Tensor Optimizer::moment(size_t i, size_t which) const {
  for (const Bucket& bucket : buckets_) {
    if (i >= bucket.parameters.size()) {
      i -= bucket.parameters.size();
      continue;
    }
    int64_t begin = 0;
    for (size_t before = 0; before < i; ++before) begin += bucket.parameters[before].tensor.numel();
    const at::Tensor& value = bucket.parameters[i].tensor;
    const int64_t all = bucket.values.numel();
    const Layout parts(GridShape({{"copies", bucket.copies.size()}}), {all}, {{*bucket.split, {"copies"}}});
    const Layout first(GridShape({{"first", 1}}), {all},
                       {{Split::covering({{{begin, begin + value.numel()}}}, all, 0), {"first"}}});
    const int rank = bucket.copies.rank();
    const at::Tensor joined =
        Exchange(plan_move(parts, first, rank), first.shape_on(rank), bucket.copies)(bucket.moments.at(which));
    return rank == 0 ? joined.view(value.sizes()) : joined;
  }
  throw InvalidArgument("Optimizer::moment: there is no such parameter");
}

void Optimizer::load_state(int64_t steps,
                           const std::function<at::Tensor(const nn::Parameter&, const std::string& moment)>& moment) {
  const at::NoGradGuard no_gradient;
  steps_ = steps;
  for (const Bucket& bucket : buckets_)
    for (size_t which = 0; which < rule_.moments.size(); ++which) {
      std::vector<at::Tensor> pieces;
      for (const nn::Parameter& parameter : bucket.parameters)
        pieces.push_back(moment(parameter, rule_.moments[which]).reshape({-1}));
      bucket.moments[which].copy_(bucket.part(at::cat(pieces)));
    }
}

}  // namespace adjoin::parallel
