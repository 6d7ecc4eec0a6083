#include "adjoin/parallel/sharded_pieces.hpp"

#include <ATen/core/grad_mode.h>

#include <string>

#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/parallel/weight_units.hpp"

namespace adjoin::parallel {

ShardedPieces::ShardedPieces(const std::vector<nn::Parameter>& pieces, int64_t unit_bytes)
    : kept_(pieces), shared_(pieces.size()) {
  std::vector<nn::Parameter> whole;
  std::vector<size_t> places;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].is_buffer || nn::ranks_of_copies(pieces[i]).size() < 2) continue;
    shared_[i] = Shared{whole.size(), Bucket({reals_of(pieces[i])}, {0})};
    whole.push_back(pieces[i]);
    places.push_back(i);
  }
  const std::string who = "distribute";
  give_own_memory(whole, who);
  gathers_.emplace(whole, units_of(whole, unit_bytes), std::nullopt, who,
                   [this](int64_t event) { gathers_->carry_out(event, /*is_wanted=*/true); });
  for (size_t i = 0; i < places.size(); ++i) kept_[places[i]] = gathers_->shards()[i];
}

void ShardedPieces::add(size_t piece, const at::Tensor& gradient) {
  const at::NoGradGuard no_gradient;
  gathers_->keep(false);
  at::Tensor mine = gradient;
  const at::Tensor& kept = kept_[piece].tensor;
  if (const std::optional<Shared>& shared = shared_[piece]) {
    const Bucket& bucket = shared->bucket;
    gathers_->release(shared->weight);
    const at::Tensor packed = bucket.pack({reals_of(plain("gradients", gradient).clone(at::MemoryFormat::Contiguous))});
    mine = bucket.mine(packed);
    bucket.copies().reduce_scatter(buffer(packed), buffer(mine), bucket.sizes());
    mine = of_reals(mine, kept.sizes().vec(), kept.is_complex()).clone();
  }
  at::Tensor& sum = kept.mutable_grad();
  sum = sum.defined() ? sum.add_(mine) : mine;
}

}  // namespace adjoin::parallel
