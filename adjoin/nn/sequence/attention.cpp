#include "adjoin/nn/sequence/attention.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/linalg/agreement.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/movement/forward_mode.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/nn/sequence/methods.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin::nn {
namespace {

/// The arguments of one call.
struct AttentionArguments {
  const at::Tensor &q, &k, &v;
  const TokenRows& rows;
  const Communicator& group;
  const AttentionOptions& options;
};

/// Checks the arguments that all ranks share.
void check_common(const AttentionArguments& a) {
  require(a.rows.workers() == a.group.size(), [&] {
    return "attention: expected rows of " + std::to_string(a.group.size()) +
           " workers, one for each rank of the group, got those of " + std::to_string(a.rows.workers());
  });
  require(!a.options.scale || std::isfinite(*a.options.scale),
          [&] { return "attention: expected a finite scale, got " + std::to_string(*a.options.scale); });
  require(a.options.dropout >= 0 && a.options.dropout < 1,
          [&] { return "attention: expected a dropout in [0, 1), got " + std::to_string(a.options.dropout); });
}

/// Checks the arguments that only this rank sees.
void check_own(const AttentionArguments& a) {
  const std::string who = "attention: rank " + std::to_string(a.group.rank()) + ": ";
  const auto check_tensor = [&](const char* name, const at::Tensor& x) {
    require(x.defined() && x.layout() == at::kStrided && at::isFloatingType(x.scalar_type()),
            [&] { return who + "expected a dense tensor of floating-point numbers as " + name; });
    require(x.dim() == 3 && x.size(0) == a.rows.size(a.group.rank()) && x.size(1) >= 1 && x.size(2) >= 1, [&] {
      return who + "expected " + name + " of shape [" + std::to_string(a.rows.size(a.group.rank())) +
             " rows, heads, head size], got shape " + shape_text(x.sizes().vec());
    });
  };
  check_tensor("q", a.q);
  check_tensor("k", a.k);
  check_tensor("v", a.v);
  const auto all = [&](const auto& of) { return of(a.q) + ", " + of(a.k) + " and " + of(a.v); };
  require(a.q.scalar_type() == a.k.scalar_type() && a.q.scalar_type() == a.v.scalar_type(), [&] {
    return who + "expected q, k and v of one type, got " +
           all([](const at::Tensor& x) { return std::string(c10::toString(x.scalar_type())); });
  });
  require(a.q.size(2) == a.k.size(2) && a.k.size(1) == a.v.size(1) && a.q.size(1) % a.k.size(1) == 0, [&] {
    return who +
           "expected q and k with heads of one size, k and v with the same number of heads, and q with a multiple of "
           "it, got " +
           all([](const at::Tensor& x) { return shape_text(x.sizes().vec()); });
  });
}

/// The properties that must be equal on all ranks.
std::string description(const AttentionArguments& a) {
  const auto tensor = [](const char* name, const at::Tensor& x) {
    return std::string(name) + " of " + std::to_string(x.size(1)) + " heads of " + std::to_string(x.size(2)) +
           (at::GradMode::is_enabled() && x.requires_grad() ? " with" : " without") + " a gradient, ";
  };
  const AttentionOptions& o = a.options;
  constexpr const char* kMethods[] = {"ring", "gathered", "ulysses"};
  std::string text = std::string(kMethods[static_cast<size_t>(o.method)]) + " of " + c10::toString(a.q.scalar_type()) +
                     ", " + tensor("q", a.q) + tensor("k", a.k) + tensor("v", a.v);
  if (o.scale) text += "scale " + shortest_text(*o.scale) + ", ";
  if (o.causal) text += "causal, ";
  if (o.mask) text += "masked, ";
  if (o.drops())
    text += "dropout " + shortest_text(o.dropout) + " of " + o.name + " from head " + std::to_string(o.first_head) +
            ", sample " + std::to_string(o.step.first_sample) + ", seed " + std::to_string(o.step.seed) + " and step " +
            std::to_string(o.step.number) + ", ";
  return text + a.rows.to_string();
}

/// x with heads of `size`, filled up with zeros, and unit stride in the last dim. LibTorch's kernel supports only that, and is
/// silently wrong otherwise.
at::Tensor prepared(const at::Tensor& x, int64_t size) {
  refuse_tangent("attention", x);
  const at::Tensor y = plain("attention", x);
  if (y.size(2) < size) return at::constant_pad_nd(y, {0, size - y.size(2)});
  return y.stride(2) == 1 ? y : y.contiguous();
}

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const TokenRows& rows,
                     const Communicator& group, const AttentionOptions& options) {
  const AttentionArguments arguments{q, k, v, rows, group, options};
  check_common(arguments);
  check_own(arguments);
  if (group.checked()) linalg::check_agreement("attention", description(arguments), group);
  AttentionOptions completed = options;
  if (!options.scale) completed.scale = 1 / std::sqrt(static_cast<double>(q.size(2)));
  if (const auto order = FixedOrder::current()) completed.blocks = order->numbers.tokens;
  const int64_t size = std::max(q.size(2), v.size(2));
  const auto method = options.method == AttentionMethod::ring       ? ring_attention
                      : options.method == AttentionMethod::gathered ? gathered_attention
                                                                    : ulysses_attention;
  const at::Tensor of_q = prepared(q, size), of_k = prepared(k, size), of_v = prepared(v, size);
  const at::Tensor y = group.size() == 1 && options.method != AttentionMethod::gathered
                           ? attention_on_one_worker(of_q, of_k, of_v, rows, completed)
                           : method(of_q, of_k, of_v, rows, group, completed);
  return y.narrow(2, 0, v.size(2));
}

AttentionMask mask_of_rows(const at::Tensor& hidden, const TokenRows& rows, int rank) {
  require(rank >= 0 && rank < rows.workers(), [&] {
    return "mask_of_rows: expected a rank from 0 to " + std::to_string(rows.workers() - 1) + ", got " +
           std::to_string(rank);
  });
  const std::vector<int64_t> expected{rows.size(rank), rows.size()};
  const at::Tensor mine = hidden.dim() == 3 && hidden.size(0) == 1 ? hidden.squeeze(0) : hidden;
  require(mine.scalar_type() == at::kBool && mine.sizes() == at::IntArrayRef(expected), [&] {
    return "mask_of_rows: rank " + std::to_string(rank) + ": expected a mask of Bool and shape " +
           shape_text(expected) + ", got " + c10::toString(mine.scalar_type()) + " and " +
           shape_text(hidden.sizes().vec());
  });
  return [=](int64_t sample, Range queries, Range keys) {
    int64_t row = 0;
    for (const Run& run : rows.runs(rank)) {
      if (run.sample == sample && run.tokens.begin <= queries.begin && queries.end <= run.tokens.end)
        return mine.narrow(0, row + queries.begin - run.tokens.begin, queries.size())
            .narrow(1, rows.offset(sample) + keys.begin, keys.size());
      row += run.tokens.size();
    }
    throw InvalidArgument(
        "mask_of_rows: rank " + std::to_string(rank) +
        ": expected the method ring or gathered, because this mask covers only the rank's own rows, and "
        "ulysses asks for others");
  };
}

}  // namespace adjoin::nn
