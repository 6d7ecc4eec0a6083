#include "adjoin/parallel/bucket.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/linear_map.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::parallel {
namespace {

// A parameter with at least this many elements is sent alone, without a copy; the cost of a message is then relatively small.
constexpr int64_t kTravelsAlone = 1 << 16;

/// The elements of a piece that are the shard of one of the workers that hold copies of it, in row-major order.
Range shard_of(const at::Tensor& piece, int worker, int workers) {
  const int64_t rows = piece.dim() == 0 ? 1 : piece.size(0), row = rows == 0 ? 0 : piece.numel() / rows;
  // Computed as in Split::balanced, which would make the parts of all workers for each of a thousand workers.
  const int64_t each = rows / workers, larger = rows % workers;
  const int64_t begin = worker * each + std::min<int64_t>(worker, larger), size = each + (worker < larger ? 1 : 0);
  return {begin * row, (begin + size) * row};
}

}  // namespace

Bucket::Bucket(const std::vector<nn::Parameter>& parameters, std::vector<size_t> members, bool is_cut)
    : members_(std::move(members)), copies_(nn::copies_of(parameters[members_[0]])), is_cut_(is_cut) {
  const int shards = is_cut ? copies_.size() : 1;
  for (int shard = 0; shard < shards; ++shard) {
    sizes_.push_back(0);
    for (const size_t i : members_) {
      shards_.push_back({i, shard_of(parameters[i].tensor, shard, shards)});
      sizes_.back() += shards_.back().range.size();
    }
  }
}

at::Tensor Bucket::pack(const std::vector<at::Tensor>& tensors) const {
  const at::Tensor& first = tensors[members_[0]];
  if (members_.size() == 1) return plain("gradients", first).reshape({-1}).contiguous();
  if (!first.is_cpu()) return at::cat(parts_of(tensors));
  const at::Tensor packed = at::empty({std::accumulate(sizes_.begin(), sizes_.end(), int64_t{0})}, first.options());
  auto* to = static_cast<char*>(packed.mutable_data_ptr());
  const auto bytes = static_cast<int64_t>(packed.element_size());
  for (const auto& [i, range] : shards_) {  // by memcpy: slicing a small tensor takes longer than copying it
    const at::Tensor tensor = plain("gradients", tensors[i]).contiguous();
    std::memcpy(to, static_cast<const char*>(tensor.const_data_ptr()) + range.begin * bytes, range.size() * bytes);
    to += range.size() * bytes;
  }
  return packed;
}

void Bucket::unpack(const at::Tensor& packed, const std::vector<at::Tensor>& tensors) const {
  if (members_.size() == 1) return;  // the packed tensor is the tensor itself
  if (!packed.is_cpu()) {
    int64_t before = 0;
    for (const at::Tensor& part : parts_of(tensors)) {
      part.copy_(packed.narrow(0, before, part.numel()));
      before += part.numel();
    }
    return;
  }
  const auto* from = static_cast<const char*>(packed.const_data_ptr());
  const auto bytes = static_cast<int64_t>(packed.element_size());
  for (const auto& [i, range] : shards_) {
    check_plain("Bucket::unpack", tensors[i]);
    require(tensors[i].is_contiguous(), "Bucket::unpack: expected contiguous tensors");
    std::memcpy(static_cast<char*>(tensors[i].mutable_data_ptr()) + range.begin * bytes, from, range.size() * bytes);
    from += range.size() * bytes;
  }
}

std::vector<at::Tensor> Bucket::parts_of(const std::vector<at::Tensor>& tensors) const {
  std::vector<at::Tensor> parts;
  for (const auto& [i, range] : shards_)
    parts.push_back(plain("gradients", tensors[i]).reshape({-1}).narrow(0, range.begin, range.size()));
  return parts;
}

at::Tensor Bucket::mine(const at::Tensor& packed) const {
  const auto mine = sizes_.begin() + place();
  return packed.narrow(0, std::accumulate(sizes_.begin(), mine, int64_t{0}), *mine);
}

void Bucket::take_shards(const at::Tensor& mine, std::vector<at::Tensor>& tensors) const {
  const auto first = shards_.begin() + place() * std::ssize(members_);
  int64_t before = 0;
  for (auto shard = first; shard != first + std::ssize(members_); before += (shard++)->range.size())
    tensors[shard->parameter] = mine.narrow(0, before, shard->range.size());
}

std::vector<Bucket::Run> Bucket::runs_of(const std::function<bool(size_t)>& holds) const {
  std::vector<Run> runs;
  for (size_t m = 0; m < members_.size(); ++m) {
    const Shard& shard = shards_[static_cast<size_t>(place()) * members_.size() + m];
    if (runs.empty() || runs.back().holds != holds(shard.parameter)) runs.push_back({0, holds(shard.parameter)});
    runs.back().elements += shard.range.size();
  }
  return runs;
}

std::vector<Bucket> buckets_of(const std::vector<nn::Parameter>& parameters,
                               const std::function<int(const nn::Parameter&)>& kind,
                               const std::function<bool(const nn::Parameter&)>& is_cut) {
  const auto make = [&](std::vector<size_t> members) {
    const bool cut = !is_cut || is_cut(parameters[members[0]]);
    return Bucket(parameters, std::move(members), cut);
  };
  std::vector<Bucket> buckets;
  std::map<std::tuple<std::vector<int>, at::ScalarType, int>, std::vector<size_t>> small;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const nn::Parameter& parameter = parameters[i];
    if (!is_trained(parameter)) continue;
    nn::copies_of(parameter);  // makes their group, in the order that all workers share
    if (parameter.tensor.numel() >= kTravelsAlone)
      buckets.push_back(make({i}));
    else
      small[{nn::ranks_of_copies(parameter), parameter.tensor.scalar_type(), kind ? kind(parameter) : 0}].push_back(i);
  }
  for (auto& [key, members] : small) buckets.push_back(make(std::move(members)));
  return buckets;
}

at::Tensor reals_of(const at::Tensor& tensor) {
  if (!tensor.is_complex()) return tensor;
  // A number is a row of two, so that shards do not cut between its parts.
  return at::view_as_real(tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor);
}

at::Tensor of_reals(const at::Tensor& flat, const std::vector<int64_t>& shape, bool is_complex) {
  return is_complex ? at::view_as_complex(flat.view(with_pairs(shape))) : flat.view(shape);
}

nn::Parameter reals_of(nn::Parameter parameter) {
  if (parameter.tensor.is_complex())
    parameter.tensor = reals_of(parameter.tensor.detach()).requires_grad_(parameter.tensor.requires_grad());
  return parameter;
}

bool is_trained(const nn::Parameter& parameter) {
  return !parameter.is_buffer && parameter.tensor.requires_grad();
}

}  // namespace adjoin::parallel
