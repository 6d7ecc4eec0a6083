#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/saved_value.hpp"
#include "adjoin/nn/sequence/composed_tile.hpp"
#include "adjoin/nn/sequence/flash.hpp"
#include "adjoin/nn/sequence/methods.hpp"
#include "adjoin/nn/sequence/tile.hpp"

namespace adjoin::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

/// Samples of about equal length, which go through the kernel together, padded to the longest, or to a multiple of `unit`.
class Batch {
 public:
  /// For queries of this type and device.
  Batch(const TokenRows& rows, std::span<const int64_t> samples, bool causal, at::TensorOptions queries, int64_t unit)
      : samples_(std::ssize(samples)), unit_(unit) {
    std::vector<int64_t> begins, lengths;
    for (const int64_t sample : samples) {
      begins.push_back(rows.offset(sample));
      lengths.push_back(rows.lengths()[static_cast<size_t>(sample)]);
    }
    longest_ = padded_size(*std::max_element(lengths.begin(), lengths.end()), unit);
    first_ = begins.front();
    const bool equal = std::all_of(lengths.begin(), lengths.end(), [&](int64_t length) { return length == longest_; });
    is_block_ = equal && begins.back() - first_ == (samples_ - 1) * longest_;
    const bool is_composed = !queries.device().is_cpu();
    // A causal mask hides keys later than any query's, so padding too.
    if (causal && is_composed) hidden_ = at::ones({longest_, longest_}, queries.dtype(at::kBool)).triu(1);
    if (is_block_) return;
    const at::Tensor column = at::arange(longest_).unsqueeze(0), length = at::tensor(lengths, at::kLong).unsqueeze(1);
    const at::Tensor is_token = column < length;
    const at::Tensor rows_here =
        (at::tensor(begins, at::kLong).unsqueeze(1) + column).masked_fill(is_token.logical_not(), first_).view({-1});
    const at::Tensor tokens_here = is_token.view({-1}).nonzero().view({-1});
    rows_ = rows_here.to(queries.device());
    tokens_ = tokens_here.to(queries.device());
    rows_of_tokens_ = rows_here.index_select(0, tokens_here).to(queries.device());
    if (equal) return;
    padding_ = is_token.logical_not().to(queries.device());
    if (causal) return;
    const at::Tensor hidden = padding_.view({samples_, 1, 1, longest_});
    if (is_composed)
      hidden_ = hidden;
    else
      mask_ = at::zeros(hidden.sizes(), queries).masked_fill_(hidden, -std::numeric_limits<double>::infinity());
  }

  /// [rows, heads, *] -> [samples, heads, longest, *], in the kernel's type; the padding is finite. In a fixed order each head's
  /// rows follow one another in memory, with zeros beside them up to whole vector registers: the kernel's products depend on both.
  at::Tensor pack(const at::Tensor& x) const {
    const at::Tensor mine = is_block_ ? x.narrow(0, first_, samples_ * longest_) : x.index_select(0, rows_);
    const at::Tensor packed = mine.to(partial_type(x)).unflatten(0, {samples_, longest_}).transpose(1, 2);
    if (unit_ == 1) return packed;
    const int64_t size = packed.size(3), more = padded_size(size, unit_) - size;
    return (more == 0 ? packed : at::constant_pad_nd(packed, {0, more})).contiguous();
  }
  /// The same with zeros as padding.
  at::Tensor pack_with_zeros(const at::Tensor& x) const {
    const at::Tensor packed = pack(x);
    return padding_.defined() ? packed.masked_fill(padding_.view({samples_, 1, longest_, 1}), 0) : packed;
  }
  /// Takes the first `size` features. If `into` is undefined and the batch has all rows, it is set without a copy.
  void unpack(const at::Tensor& packed, int64_t size, at::Tensor& into, at::ScalarType type) const {
    const at::Tensor x = packed.narrow(3, 0, size).transpose(1, 2).flatten(0, 1);
    if (!into.defined())
      into = x.to(type);
    else if (is_block_)
      into.narrow(0, first_, samples_ * longest_).copy_(x);
    else
      into.index_copy_(0, rows_of_tokens_,
                       (padding_.defined() ? x.index_select(0, tokens_) : x).to(into.scalar_type()));
  }
  /// For the CPU's kernel, which hides later keys itself.
  const std::optional<at::Tensor>& mask() const { return mask_; }
  /// For ComposedAttention, later keys too.
  const at::Tensor& hidden() const { return hidden_; }
  /// Whether the batch has all `rows` rows, in their order.
  bool is_whole(int64_t rows) const { return is_block_ && samples_ * longest_ == rows; }

 private:
  int64_t samples_, unit_, longest_ = 0, first_ = 0;
  bool is_block_ = false;  // the samples are adjacent and equally long, so that nothing is copied
  at::Tensor rows_, tokens_, rows_of_tokens_, padding_, hidden_;
  std::optional<at::Tensor> mask_;
};

// A batch's samples have at least this fraction of its longest sample's length, or are at most kShort tokens shorter, as a call
// costs more than these zeros.
constexpr double kLeastLength = 0.8;
constexpr int64_t kShort = 32;

std::shared_ptr<const std::vector<Batch>> batches_of(const TokenRows& rows, bool causal, at::TensorOptions queries,
                                                     bool is_fixed) {
  const int64_t unit = is_fixed ? kPaddedTo : 1;  // then the samples of a batch have one padded length
  const std::vector<int64_t>& lengths = rows.lengths();
  const auto length = [&](int64_t sample) { return lengths[static_cast<size_t>(sample)]; };
  std::vector<int64_t> order;
  for (int64_t sample = 0; sample < std::ssize(lengths); ++sample)
    if (length(sample) > 0) order.push_back(sample);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return length(a) > length(b); });
  std::vector<Batch> batches;
  for (auto begin = order.begin(); begin != order.end();) {
    const auto least = std::min<double>(kLeastLength * static_cast<double>(length(*begin)), length(*begin) - kShort);
    const int64_t of_longest = padded_size(length(*begin), unit);
    const auto end = std::find_if(begin, order.end(), [&](int64_t s) {
      return is_fixed ? padded_size(length(s), unit) != of_longest : static_cast<double>(length(s)) < least;
    });
    std::sort(begin, end);
    batches.emplace_back(rows, std::span(begin, end), causal, queries, unit);
    begin = end;
  }
  return std::make_shared<const std::vector<Batch>>(std::move(batches));
}

/// Repeats each key head for its query heads: [samples, h, *] -> [samples, heads, *]; and the sum over heads that share one.
at::Tensor shared_by(int64_t each, const at::Tensor& x) {
  return each == 1 ? x : x.repeat_interleave(each, 1);
}
at::Tensor sum_of_sharing(int64_t each, const at::Tensor& x, bool is_fixed) {
  return sum_of_shared(x.unflatten(1, {x.size(1) / each, each}), 2, is_fixed);
}

/// The data of a call besides its tensors.
struct Samples {
  std::shared_ptr<const std::vector<Batch>> batches;  // shared with the other layers of the micro-batch
  bool causal;
  double scale;
  bool is_fixed;  // bits that do not depend on the other samples and heads
};

/// Memory into which all batches are unpacked; undefined where one batch has all rows.
at::Tensor unset(const at::Tensor& x, int64_t size, const std::vector<Batch>& batches) {
  if (batches.size() == 1 && batches[0].is_whole(x.size(0))) return {};
  return at::empty({x.size(0), x.size(1), size}, x.options().requires_grad(false));
}

struct WholeSamples : torch::autograd::Function<WholeSamples> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const Samples& samples) {
    const auto& [batches, causal, scale, is_fixed] = samples;
    const int64_t each = q.size(1) / k.size(1);
    at::Tensor out = unset(q, v.size(2), *batches);
    tensor_list saved{q, k, v, at::Tensor()};
    for (const Batch& batch : *batches) {
      const auto [y, log_sum] =
          q.is_cpu() ? at::_scaled_dot_product_flash_attention_for_cpu(batch.pack(q), shared_by(each, batch.pack(k)),
                                                                       shared_by(each, batch.pack(v)),
                                                                       /*dropout_p=*/0.0, causal, batch.mask(), scale)
                     : ComposedAttention{batch.pack(q), shared_by(each, batch.pack(k)), shared_by(each, batch.pack(v)),
                                         batch.hidden(), scale}
                           .forward();
      batch.unpack(y, v.size(2), out, q.scalar_type());
      saved.push_back(log_sum);
    }
    saved[3] = out;
    ctx->save_for_backward(saved);
    ctx->saved_data["samples"] = saved_value(samples);
    return out;
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    require(!at::GradMode::is_enabled(), "attention: double backward is not supported");
    const auto& [batches, causal, scale, is_fixed] = value_of<Samples>(ctx->saved_data["samples"]);
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3];
    const int64_t each = q.size(1) / k.size(1);
    at::Tensor of_q = unset(q, q.size(2), *batches), of_k = unset(k, k.size(2), *batches),
               of_v = unset(v, v.size(2), *batches);
    for (size_t i = 0; i < batches->size(); ++i) {
      const Batch& batch = (*batches)[i];
      const auto [dq, dk, dv] = q.is_cpu()
                                    ? at::_scaled_dot_product_flash_attention_for_cpu_backward(
                                          batch.pack_with_zeros(gradients[0]), batch.pack(q),
                                          shared_by(each, batch.pack(k)), shared_by(each, batch.pack(v)),
                                          batch.pack(out), saved[4 + i], /*dropout_p=*/0.0, causal, batch.mask(), scale)
                                    : ComposedAttention{batch.pack(q), shared_by(each, batch.pack(k)),
                                                        shared_by(each, batch.pack(v)), batch.hidden(), scale}
                                          .backward(batch.pack_with_zeros(gradients[0]), batch.pack(out), saved[4 + i]);
      batch.unpack(dq, q.size(2), of_q, q.scalar_type());
      batch.unpack(sum_of_sharing(each, dk, is_fixed), k.size(2), of_k, q.scalar_type());
      batch.unpack(sum_of_sharing(each, dv, is_fixed), v.size(2), of_v, q.scalar_type());
    }
    return {of_q, of_k, of_v, at::Tensor()};
  }
};

}  // namespace

at::Tensor attention_on_one_worker(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const TokenRows& rows,
                                   const AttentionOptions& options) {
  bool serves = options.blocks <= 1 && !options.mask && !options.drops() && *options.scale > 0 && q.numel() > 0;
  for (int64_t row = 0; const Run& run : rows.runs(0))  // else a sample is in pieces, or samples are in another order
    serves &= rows.offset(run.sample) + run.tokens.begin == std::exchange(row, row + run.tokens.size());
  const bool is_fixed = options.in_order();
  // The CPU's kernel returns a number for a NaN query.
  if (!serves || (q.is_cpu() && !std::isfinite((q.sum() + k.sum()).item<double>())))
    return ring_attention(q, k, v, rows, Communicator(), options);
  if (flash_serves(q, options)) return flash_attention(q, k, v, rows, options);
  const std::string key = "batches of " + std::string(c10::toString(partial_type(q))) + " on " + q.device().str() +
                          (options.causal ? ", causal" : "") + (is_fixed ? ", fixed" : "");
  const at::TensorOptions queries = at::device(q.device()).dtype(partial_type(q));
  const auto batches = rows.once(key, [&] { return batches_of(rows, options.causal, queries, is_fixed); });
  return WholeSamples::apply(q, k, v, Samples{batches, options.causal, *options.scale, is_fixed});
}

}  // namespace adjoin::nn
