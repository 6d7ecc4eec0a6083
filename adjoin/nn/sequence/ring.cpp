#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/saved_value.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/nn/sequence/methods.hpp"
#include "adjoin/nn/sequence/ring.hpp"
#include "adjoin/nn/sequence/tile.hpp"

namespace adjoin::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

/// Adds what each rank's keys give as they come.
class RingByArrival final : public Ring {
 public:
  using Ring::Ring;

  PartialAttention forward(const TileInputs& mine) const override {
    const PartialAttention sum = uninitialised_partial(mine.q);
    FirstVisits is_first(mine.q);
    go_round(mine, [&](int step, const Tensors& visitors) {
      // Other tiles than the CPU's pass NaN on, and the host does not wait for them.
      const bool finite = !mine.q.is_cpu() || std::isfinite((mine.q.sum() + visitors[0].sum()).item<double>());
      for (const Tile& tile : tiles(owner_in(step), mine.q)) {
        const PartialAttention more = attend(inputs(mine.q, visitors, tile, finite), tile, options_);
        const PartialAttention here{part(sum.out, tile.query_row, tile.queries),
                                    part(sum.log_sum, tile.query_row, tile.queries)};
        is_first(tile.query_row) ? assign(here, more) : merge(here, more, options_);
      }
    });
    return sum;
  }

  /// The gradients of k and v travel with them, and finally back to their owner.
  TileInputs backward(const TileInputs& mine, const TileResults& results) const override {
    const auto unset = [&](const at::Tensor& x) { return at::empty(x.sizes(), results.log_sum.options()); };
    const at::Tensor of_q = unset(mine.q);
    Tensors gradients{unset(mine.k), unset(mine.v)};
    FirstVisits is_first_query(mine.q), is_first_key(mine.k);
    const auto add = [](at::Tensor sum, const at::Tensor& more, bool first) {
      first ? sum.copy_(more) : sum.add_(more);
    };
    go_round(mine, [&](int step, const Tensors& visitors) {
      for (const Tile& tile : tiles(owner_in(step), mine.q)) {
        const TileInputs gradient =
            attend_backward(inputs(mine.q, visitors, tile, /*finite=*/true), results_of(results, tile), tile, options_);
        add(part(of_q, tile.query_row, tile.queries), gradient.q, is_first_query(tile.query_row));
        const bool first = step == 0 && is_first_key(tile.key_row);
        add(part(gradients[0], tile.key_row, tile.keys), gradient.k, first);
        add(part(gradients[1], tile.key_row, tile.keys), gradient.v, first);
      }
      if (group_.size() > 1) hand_on(gradients, rows_.size(owner_in(step + 1)))(group_);
    });
    return {of_q, gradients[0], gradients[1]};
  }

 private:
  std::vector<Tile> tiles(int owner, const at::Tensor& q) const {
    if (q.numel() == 0) return {};  // no heads
    return tiles_of(rows_, group_.rank(), owner, options_);
  }

  static at::Tensor part(const at::Tensor& x, int64_t row, const Range& tokens) {
    return x.narrow(0, row, tokens.size());
  }
  static TileInputs inputs(const at::Tensor& q, const Tensors& visitors, const Tile& tile, bool finite) {
    return {part(q, tile.query_row, tile.queries), part(visitors[0], tile.key_row, tile.keys),
            part(visitors[1], tile.key_row, tile.keys), finite};
  }
  static TileResults results_of(const TileResults& all, const Tile& tile) {
    const auto of_tile = [&](const at::Tensor& x) { return part(x, tile.query_row, tile.queries); };
    return {of_tile(all.out), of_tile(all.log_sum), of_tile(all.gradient)};
  }

  /// Whether a tile is the first that contributes to a worker's rows, which it then sets instead of adding. The worker's own
  /// keys come first, and with these each query and each key has a tile.
  class FirstVisits {
   public:
    explicit FirstVisits(const at::Tensor& rows) : seen_(static_cast<size_t>(rows.size(0))) {}
    bool operator()(int64_t row) { return !std::exchange(seen_[static_cast<size_t>(row)], 1); }

   private:
    std::vector<uint8_t> seen_;
  };
};

struct RingAttention : torch::autograd::Function<RingAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::shared_ptr<const Ring>& ring) {
    const PartialAttention sum = ring->forward({q, k, v});
    const at::Tensor out = sum.out.to(q.scalar_type());
    // 0 where everything is hidden, so that backward's exponentials are 0.
    const at::Tensor log_sum = sum.log_sum.masked_fill(sum.log_sum == -std::numeric_limits<double>::infinity(), 0);
    ctx->save_for_backward({q, k, v, out, log_sum});
    ctx->saved_data["ring"] = saved_value(ring);
    return out;
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    require(!at::GradMode::is_enabled(), "attention: double backward is not supported");
    const auto saved = ctx->get_saved_variables();
    const auto type = saved[0].scalar_type();
    const auto& ring = value_of<std::shared_ptr<const Ring>>(ctx->saved_data["ring"]);
    const TileInputs found = ring->backward({saved[0], saved[1], saved[2]},
                                            {saved[3], saved[4], plain("attention", gradients[0]).contiguous()});
    return {found.q.to(type), found.k.to(type), found.v.to(type), at::Tensor()};
  }
};

}  // namespace

at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const TokenRows& rows,
                          const Communicator& group, const AttentionOptions& options) {
  const std::shared_ptr<const Ring> ring =
      options.in_order() ? ring_in_order(group, rows, options) : std::make_shared<RingByArrival>(group, rows, options);
  if (at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad()))
    return RingAttention::apply(q, k, v, ring);
  const at::NoGradGuard no_gradient;
  return ring->forward({q, k, v}).out.to(q.scalar_type());
}

}  // namespace adjoin::nn
