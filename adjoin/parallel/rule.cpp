#include "adjoin/parallel/rule.hpp"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>

#include "adjoin/base/error.hpp"

namespace adjoin::parallel {

Rule adamw(AdamWOptions options) {
  return {"adamw", {"first", "second"}, [options](const FlatPiece& piece, const UpdateStep& step) {
            const at::Tensor number = at::full({}, static_cast<double>(step.number), at::kFloat);
            at::_fused_adamw_(piece.value, piece.gradient, piece.moments[0], piece.moments[1], /*max_exp_avg_sqs=*/{},
                              number, step.rate, options.beta1, options.beta2, step.decay, options.epsilon,
                              /*amsgrad=*/false, /*maximize=*/false);
          }};
}

Rule sgd(SgdOptions options) {
  require(options.momentum >= 0 && options.momentum < 1,
          [&] { return "sgd: expected a momentum in [0, 1), got " + std::to_string(options.momentum); });
  require(!options.nesterov || options.momentum > 0, "sgd: Nesterov's momentum expects a momentum above 0");
  std::vector<std::string> moments;
  if (options.momentum > 0) moments.emplace_back("momentum");
  return {"sgd", std::move(moments), [options](const FlatPiece& piece, const UpdateStep& step) {
            at::_fused_sgd_(piece.value, piece.gradient, piece.moments, step.decay, options.momentum, step.rate,
                            /*dampening=*/0, options.nesterov, /*maximize=*/false, /*is_first_step=*/false);
          }};
}

}  // namespace adjoin::parallel
