#include "adjoin/parallel/bucket.hpp"

#include <ATen/ops/cat.h>

#include <map>
#include <numeric>
#include <utility>

namespace adjoin::parallel {
namespace {

// A parameter of at least so many elements travels alone, without a copy; the cost of a message is then small beside it.
constexpr int64_t kTravelsAlone = 1 << 16;

}  // namespace

Bucket::Bucket(const std::vector<nn::Parameter>& parameters, std::vector<size_t> members)
    : members_(std::move(members)), copies_(nn::copies_of(parameters[members_[0]])) {
  for (int worker = 0; worker < copies_.size(); ++worker) {
    sizes_.push_back(0);
    for (const size_t i : members_) {
      shards_.push_back({i, shard_of(parameters[i].tensor, worker, copies_.size())});
      sizes_.back() += shards_.back().range.size();
    }
  }
}

at::Tensor Bucket::pack(const std::vector<at::Tensor>& tensors) const {
  if (members_.size() == 1) return tensors[members_[0]].reshape({-1});
  std::vector<at::Tensor> pieces;
  for (const auto& [i, range] : shards_)
    pieces.push_back(tensors[i].reshape({-1}).narrow(0, range.begin, range.size()));
  return at::cat(pieces);
}

void Bucket::unpack(const at::Tensor& packed, const std::vector<at::Tensor>& tensors) const {
  if (members_.size() == 1) return;  // it is the tensor
  int64_t before = 0;
  for (const auto& [i, range] : shards_) {
    tensors[i].view({-1}).narrow(0, range.begin, range.size()).copy_(packed.narrow(0, before, range.size()));
    before += range.size();
  }
}

at::Tensor Bucket::mine(const at::Tensor& packed) const {
  const auto mine = sizes_.begin() + copies_.rank();
  return packed.narrow(0, std::accumulate(sizes_.begin(), mine, int64_t{0}), *mine);
}

void Bucket::take_shards(const at::Tensor& packed, std::vector<at::Tensor>& tensors) const {
  const at::Tensor all = mine(packed);
  const auto first = shards_.begin() + copies_.rank() * std::ssize(members_);
  int64_t before = 0;
  for (auto shard = first; shard != first + std::ssize(members_); before += (shard++)->range.size())
    tensors[shard->parameter] = all.narrow(0, before, shard->range.size());
}

std::vector<Bucket> buckets_of(const std::vector<nn::Parameter>& parameters) {
  std::vector<Bucket> buckets;
  std::map<std::pair<std::vector<int>, at::ScalarType>, std::vector<size_t>> small;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const nn::Parameter& parameter = parameters[i];
    if (!is_trained(parameter) || nn::copies_of(parameter).size() == 1) continue;
    if (parameter.tensor.numel() >= kTravelsAlone)
      buckets.emplace_back(parameters, std::vector<size_t>{i});
    else
      small[{nn::ranks_of_copies(parameter), parameter.tensor.scalar_type()}].push_back(i);
  }
  for (auto& [key, members] : small) buckets.emplace_back(parameters, std::move(members));
  return buckets;
}

bool is_trained(const nn::Parameter& parameter) {
  return !parameter.is_buffer && parameter.tensor.requires_grad();
}

Range shard_of(const at::Tensor& piece, int worker, int workers) {
  const int64_t rows = piece.dim() == 0 ? 1 : piece.size(0), row = rows == 0 ? 0 : piece.numel() / rows;
  const Range range = Split::balanced(rows, workers, 0).ranges(worker)[0];
  return {range.begin * row, range.end * row};
}

}  // namespace adjoin::parallel
