#include "adjoin/nn/cross_entropy.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/forward_mode.hpp"
#include "adjoin/movement/graph_notes.hpp"
#include "adjoin/movement/on_threads.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/nn/fixed/layers.hpp"
#include "adjoin/nn/id_range.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

at::Tensor precise_scores(const at::Tensor& scores) {
  return scores.scalar_type() == at::kDouble ? scores : scores.to(at::kFloat);
}

/// The score of each row's target if it is one of the words here, else 0; and the log-sum of the exponentials here.
at::Tensor target_scores(const at::Tensor& scores, const at::Tensor& place) {
  if (scores.size(1) == 0) return at::zeros({scores.size(0)}, scores.options());
  return scores.gather(1, place.clamp_min(0).unsqueeze(1)).squeeze(1).masked_fill(place < 0, 0);
}
at::Tensor log_sum_of(const at::Tensor& scores) {
  if (scores.size(1) > 0) return scores.logsumexp(1);
  return at::full({scores.size(0)}, -std::numeric_limits<double>::infinity(), scores.options());
}

/// Its words in parts, where sums have a fixed order.
using Parts = std::shared_ptr<const WholeParts>;

/// The log-sum of the exponentials of all ranks' words, and each row's target's score.
using LogSum = std::pair<at::Tensor, at::Tensor>;
LogSum log_sum_over_ranks(const at::Tensor& scores, const at::Tensor& place, const Communicator& group) {
  const at::Tensor here = log_sum_of(scores), most = here.clone();
  group.all_reduce(buffer(most), Reduction::max);
  const at::Tensor sums = at::stack({(here - most).exp(), target_scores(scores, place)});
  group.all_reduce(buffer(sums), Reduction::sum);
  return {most + sums[0].log(), sums[1]};
}

/// The same in the order of the parts. LibTorch's sum of a single row depends on the number of threads.
LogSum log_sum_over_parts(const at::Tensor& scores, const at::Tensor& place, const Communicator& group,
                          const WholeParts& parts) {
  std::vector<at::Tensor> of_parts;
  for (const std::vector<Range>& ranges : parts.local) {
    const at::Tensor of_part = at::empty({scores.size(0)}, scores.options());
    on_one_thread_each(scores.size(0), 1, [&](Range rows) {
      of_part.narrow(0, rows.begin, rows.size())
          .copy_(log_sum_of(scores.narrow(0, rows.begin, rows.size())
                                .narrow(1, ranges.front().begin, ranges.front().size())
                                .contiguous()));
    });
    of_parts.push_back(of_part);
  }
  const at::Tensor most = std::get<0>(at::stack(of_parts).max(0));
  group.all_reduce(buffer(most), Reduction::max);
  const at::Tensor of_target = target_scores(scores, place);  // one rank's and zeros: a sum without an order
  group.all_reduce(buffer(of_target));
  auto next = of_parts.begin();
  const at::Tensor sum = fixed::sum_over_parts(parts, group, {}, {scores.size(0)}, scores.options(),
                                               [&](const std::vector<Range>&) { return (*next++ - most).exp(); });
  return {most + sum.log(), of_target};
}

/// The loss of each row.
struct VocabularyLoss : torch::autograd::Function<VocabularyLoss> {
  /// `place`: the place of a row's target among the words here, negative if it is not here; `counts`: whether the row has a
  /// target.
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& scores, const at::Tensor& place,
                            const at::Tensor& counts, const Communicator& group, const Parts& parts) {
    const at::Tensor precise = precise_scores(scores);
    const auto [log_sum, of_target] =
        parts ? log_sum_over_parts(precise, place, group, *parts) : log_sum_over_ranks(precise, place, group);
    ctx->save_for_backward({scores, place, counts, log_sum});
    return (log_sum - of_target).masked_fill(counts.logical_not(), 0);
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    require(!at::GradMode::is_enabled(), "vocabulary_parallel_cross_entropy: double backward is not supported");
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &scores = saved[0], &place = saved[1], &log_sum = saved[3];
    const at::Tensor of_row = (saved[2].to(gradients[0].scalar_type()) * gradients[0]).unsqueeze(1);
    const at::Tensor gradient = (precise_scores(scores) - log_sum.unsqueeze(1)).exp_().mul_(of_row);
    if (scores.size(1) > 0)
      gradient.scatter_add_(1, place.clamp_min(0).unsqueeze(1), -of_row.masked_fill(place.unsqueeze(1) < 0, 0));
    return {gradient.to(scores.scalar_type()), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

const SummingNodes vocabulary_loss_sums(typeid(torch::autograd::CppNode<VocabularyLoss>));

void check_targets(const at::Tensor& scores, const at::Tensor& targets, const Communicator& group, const Split& words) {
  const std::string who = "vocabulary_parallel_cross_entropy: ";
  require(words.in_order() && words.parts() == group.size() && scores.dim() == 2 &&
              scores.size(1) == words.size(group.rank()),
          [&] {
            return who +
                   "expected scores of shape [rows, this rank's words] and words cut in the order of the ranks, got "
                   "shape " +
                   shape_text(scores.sizes().vec()) + " and words cut as " + words.to_string();
          });
  require(targets.scalar_type() == at::kLong && targets.sizes() == at::IntArrayRef{scores.size(0)}, [&] {
    return who + "expected targets [" + std::to_string(scores.size(0)) + "] of int64, got shape " +
           shape_text(targets.sizes().vec()) + " of " + c10::toString(targets.scalar_type());
  });
  if (targets.numel() == 0) return;
  const auto [least, most] = range_of(targets);
  require(least >= -1 && most < words.size(), [&] {
    return who + "expected targets from 0 to " + std::to_string(words.size() - 1) +
           ", or -1 for a row without a target, got " + std::to_string(least < -1 ? least : most);
  });
}

}  // namespace

at::Tensor cross_entropy(const at::Tensor& scores, const at::Tensor& labels, const at::Tensor& class_weights) {
  const at::Tensor precise = precise_scores(scores);
  const auto weights = class_weights.defined() ? std::optional(class_weights.to(precise.options())) : std::nullopt;
  if (!FixedOrder::current()) return at::cross_entropy_loss(precise, labels, weights, at::Reduction::Sum);
  return fixed::sum_of_losses(at::cross_entropy_loss(precise, labels, weights, at::Reduction::None));
}

at::Tensor vocabulary_parallel_cross_entropy(const at::Tensor& scores, const at::Tensor& targets,
                                             const Communicator& group, const Split& words) {
  check_targets(scores, targets, group, words);
  const at::Tensor place = targets - words.offset(group.rank());
  const at::Tensor elsewhere = (place < 0).logical_or(place >= words.size(group.rank()));
  refuse_tangent("vocabulary_parallel_cross_entropy", scores);
  const auto order = FixedOrder::current();
  const auto parts =
      order ? std::make_shared<const WholeParts>(
                  words, group.rank(),
                  Split::balanced(words.size(), static_cast<int>(order->numbers.features), words.dim()), "words")
            : nullptr;
  const at::Tensor losses = VocabularyLoss::apply(scores, place.masked_fill(elsewhere, -1), targets >= 0, group, parts);
  return order ? fixed::sum_of_losses(losses) : losses.sum();
}

}  // namespace adjoin::nn
