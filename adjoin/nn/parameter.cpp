#include "adjoin/nn/parameter.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/full.h>

#include <array>
#include <limits>
#include <numeric>
#include <set>

#include "adjoin/base/philox.hpp"

namespace adjoin::nn {
namespace {

void collect(const torch::nn::Module& module, const std::string& prefix, std::set<const void*>& known_tensors,
             std::vector<Parameter>& found) {
  const auto* sharded = dynamic_cast<const ShardedModule*>(&module);
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    if (!known_tensors.insert(item.value().unsafeGetTensorImpl()).second) continue;
    const bool known = sharded != nullptr && sharded->shards().count(item.key()) != 0;
    found.push_back({prefix + item.key(), item.value(),
                     known ? sharded->shards().at(item.key()) : Shard{item.value().sizes().vec(), {}, {}, {}}});
  }
  for (const auto& child : module.named_children())
    collect(*child.value(), prefix + child.key() + ".", known_tensors, found);
}

/// Normal numbers `first` … of a stream, as elements of a tensor's storage.
void fill_normal(const at::Tensor& flat, PhiloxKey key, int64_t first, double deviation) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, flat.scalar_type(), "initialize", [&] {
    auto* out = flat.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, flat.numel(), 1 << 16, [&](int64_t begin, int64_t end) {
      std::array<double, 1024> numbers;
      for (int64_t i = begin; i < end; i += static_cast<int64_t>(numbers.size())) {
        const auto n = static_cast<size_t>(std::min<int64_t>(end - i, static_cast<int64_t>(numbers.size())));
        philox_normal(std::span(numbers).first(n), key, first + i);
        for (size_t j = 0; j < n; ++j) out[i + static_cast<int64_t>(j)] = static_cast<scalar_t>(deviation * numbers[j]);
      }
    });
  });
}

int64_t product(std::vector<int64_t>::const_iterator begin, std::vector<int64_t>::const_iterator end) {
  return std::accumulate(begin, end, int64_t{1}, std::multiplies<>());
}

/// Goes through the runs of a piece that are contiguous in the global tensor too.
void fill_normal(const Parameter& parameter, PhiloxKey key) {
  const Shard& shard = parameter.shard;
  const at::Tensor flat = parameter.tensor.detach().view({-1});
  if (!shard.split) return fill_normal(flat, key, 0, shard.initial.deviation);
  const auto dim = shard.shape.begin() + shard.split->dim();
  const int64_t outer = product(shard.shape.begin(), dim), inner = product(dim + 1, shard.shape.end());
  int64_t done = 0;
  for (int64_t o = 0; o < outer; ++o)
    for (const Range& range : shard.split->ranges(shard.group.rank())) {
      const int64_t count = range.size() * inner;
      fill_normal(flat.narrow(0, done, count), key, (o * shard.split->size() + range.begin) * inner,
                  shard.initial.deviation);
      done += count;
    }
}

}  // namespace

std::vector<int64_t> Shard::local_shape() const {
  std::vector<int64_t> local = shape;
  if (split) local[static_cast<size_t>(split->dim())] = split->size(group.rank());
  return local;
}

at::Tensor& ShardedModule::register_shard(const std::string& name, Shard shard, const at::TensorOptions& options) {
  const at::Tensor unset = at::full(shard.local_shape(), std::numeric_limits<double>::quiet_NaN(), options);
  shards_.emplace(name, std::move(shard));
  return register_parameter(name, unset);
}

std::vector<Parameter> parameters_of(const torch::nn::Module& module) {
  std::vector<Parameter> found;
  std::set<const void*> known_tensors;
  collect(module, "", known_tensors, found);
  return found;
}

void initialize(const torch::nn::Module& module, uint64_t seed) {
  for (const Parameter& parameter : parameters_of(module)) {
    const at::NoGradGuard no_gradient;
    switch (parameter.shard.initial.kind) {
      case Initial::Kind::zeros:
        parameter.tensor.zero_();
        break;
      case Initial::Kind::ones:
        parameter.tensor.fill_(1);
        break;
      case Initial::Kind::normal:
        fill_normal(parameter, philox_key(seed, parameter.name));
        break;
    }
  }
}

}  // namespace adjoin::nn
