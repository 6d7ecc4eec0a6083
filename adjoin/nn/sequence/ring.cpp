#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/linalg/local.hpp"
#include "adjoin/linalg/rounds.hpp"
#include "adjoin/movement/saved_value.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/nn/sequence/methods.hpp"
#include "adjoin/nn/sequence/tile.hpp"

namespace adjoin::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

/// The ranks of a group; each passes to the next rank what it got from the previous one.
class Ring {
 public:
  Ring(Communicator group, Rows rows, AttentionOptions options)
      : group_(std::move(group)), rows_(std::move(rows)), options_(std::move(options)) {}

  PartialAttention forward(const TileInputs& mine) const {
    const PartialAttention sum = uninitialised_partial(mine.q);
    FirstVisits is_first(mine.q);
    go_round(mine, [&](int step, const tensor_list& visitors) {
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
  TileInputs backward(const TileInputs& mine, const TileResults& results) const {
    const auto unset = [&](const at::Tensor& x) { return at::empty(x.sizes(), results.log_sum.options()); };
    const at::Tensor of_q = unset(mine.q);
    tensor_list gradients{unset(mine.k), unset(mine.v)};
    FirstVisits is_first_query(mine.q), is_first_key(mine.k);
    const auto add = [](at::Tensor sum, const at::Tensor& more, bool first) {
      first ? sum.copy_(more) : sum.add_(more);
    };
    go_round(mine, [&](int step, const tensor_list& visitors) {
      for (const Tile& tile : tiles(owner_in(step), mine.q)) {
        const auto of_tile = [&](const at::Tensor& x) { return part(x, tile.query_row, tile.queries); };
        const TileInputs gradient = attend_backward(
            inputs(mine.q, visitors, tile, /*finite=*/true),
            {of_tile(results.out), of_tile(results.log_sum), of_tile(results.gradient)}, tile, options_);
        add(of_tile(of_q), gradient.q, is_first_query(tile.query_row));
        const bool first = step == 0 && is_first_key(tile.key_row);
        add(part(gradients[0], tile.key_row, tile.keys), gradient.k, first);
        add(part(gradients[1], tile.key_row, tile.keys), gradient.v, first);
      }
      if (group_.size() > 1) hand_on(gradients, owner_in(step + 1))(group_);
    });
    return {of_q, gradients[0], gradients[1]};
  }

 private:
  /// Whether a tile is the first that contributes to a worker's rows, which it then sets instead of adding. The worker's own
  /// keys come first, and with these each query and each key has a tile.
  class FirstVisits {
   public:
    explicit FirstVisits(const at::Tensor& rows) : seen_(static_cast<size_t>(rows.size(0))) {}
    bool operator()(int64_t row) { return !std::exchange(seen_[static_cast<size_t>(row)], 1); }

   private:
    std::vector<uint8_t> seen_;
  };

  int modulo(int rank) const { return (rank % group_.size() + group_.size()) % group_.size(); }
  /// The rank whose keys and values are here.
  int owner_in(int step) const { return modulo(group_.rank() - step); }

  /// Calls `work(step, visitors)` with the keys and values of each rank, beginning with this one's. Between hosts the next ones
  /// are received meanwhile.
  template <class Work>
  void go_round(const TileInputs& mine, const Work& work) const {
    std::deque<tensor_list> visitors{{mine.k, mine.v}};  // the ones that are here, then those on their way
    const auto begin = [&](size_t round) {
      visitors.push_back(visitors.back());
      return hand_on(visitors.back(), owner_in(static_cast<int>(round) + 1));
    };
    linalg::in_rounds(
        group_, static_cast<size_t>(group_.size()) - 1,
        /*first=*/[&] { work(0, visitors.front()); }, begin,
        [&](size_t round) {
          visitors.pop_front();
          work(static_cast<int>(round) + 1, visitors.front());
        });
  }

  std::vector<Tile> tiles(int owner, const at::Tensor& q) const {
    if (q.numel() == 0) return {};  // no heads
    return tiles_of(rows_, group_.rank(), owner, options_);
  }

  static at::Tensor part(const at::Tensor& x, int64_t row, const Range& tokens) {
    return x.narrow(0, row, tokens.size());
  }
  static TileInputs inputs(const at::Tensor& q, const tensor_list& visitors, const Tile& tile, bool finite) {
    return {part(q, tile.query_row, tile.queries), part(visitors[0], tile.key_row, tile.keys),
            part(visitors[1], tile.key_row, tile.keys), finite};
  }

  /// Sends the tensors to the next rank, and replaces them by those of the previous rank, which have `owner`'s rows. They are
  /// complete after the result was waited for.
  linalg::Transfer hand_on(tensor_list& tensors, int owner) const {
    linalg::Boxes boxes;
    for (at::Tensor& x : tensors) {
      std::vector<int64_t> sizes = x.sizes().vec();
      sizes[0] = rows_.size(owner);
      const at::Tensor received = at::empty(sizes, x.options().requires_grad(false));
      boxes.send(x, modulo(group_.rank() + 1));
      boxes.receive(received, modulo(group_.rank() - 1));
      x = received;
    }
    return boxes;
  }

  Communicator group_;
  Rows rows_;
  AttentionOptions options_;
};

struct RingAttention : torch::autograd::Function<RingAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const Ring& ring) {
    const PartialAttention sum = ring.forward({q, k, v});
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
    const TileInputs found = value_of<Ring>(ctx->saved_data["ring"])
                                 .backward({saved[0], saved[1], saved[2]},
                                           {saved[3], saved[4], plain("attention", gradients[0]).contiguous()});
    return {found.q.to(type), found.k.to(type), found.v.to(type), at::Tensor()};
  }
};

}  // namespace

at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Rows& rows,
                          const Communicator& group, const AttentionOptions& options) {
  const Ring ring(group, rows, options);
  if (at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad()))
    return RingAttention::apply(q, k, v, ring);
  const at::NoGradGuard no_gradient;
  return ring.forward({q, k, v}).out.to(q.scalar_type());
}

}  // namespace adjoin::nn
