#include "adjoin/parallel/gradients.hpp"

#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/parallel/bucket.hpp"
#include "adjoin/parallel/copies.hpp"
#include "adjoin/parallel/gradient_hook.hpp"

namespace adjoin::parallel {
namespace {

/// Parameters whose copies were compared already. A tensor belongs to one rank, so all ranks with copies of it find the same.
class Compared {
 public:
  bool insert(const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(tensor.unsafeGetTensorImpl());
    if (known != known_.end() && !known->second.expired()) return false;
    known_.insert_or_assign(tensor.unsafeGetTensorImpl(), Weak(tensor.getIntrusivePtr()));
    if (known_.size() > 2 * kept_) forget();
    return true;
  }

 private:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  void forget() {
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    kept_ = std::max<size_t>(kept_, known_.size());
  }

  std::mutex mutex_;
  std::map<const c10::TensorImpl*, Weak> known_;
  size_t kept_ = 1024;
};

void check_new_copies(const std::vector<nn::Parameter>& parameters) {
  static Compared compared;
  std::vector<nn::Parameter> fresh;
  for (const nn::Parameter& parameter : parameters)
    if (is_trained(parameter) && compared.insert(parameter.tensor)) fresh.push_back(parameter);
  check_copies(fresh, "sum_gradients");
}

}  // namespace

void sum_gradients(const torch::nn::Module& module) {
  sum_gradients(nn::parameters_of(module));
}

void sum_gradients(const std::vector<nn::Parameter>& parameters) {
  const at::NoGradGuard no_gradient;
  for (const nn::Parameter& parameter : parameters)
    require(!is_trained(parameter) || !GradientHook::is_on(parameter.tensor), [&] {
      return "sum_gradients: the gradient of '" + parameter.name +
             "' is already summed by a Weights, DataParallel or Optimizer";
    });
  check_new_copies(parameters);
  std::vector<at::Tensor> gradients(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!is_trained(parameters[i]) || nn::copies_of(parameters[i]).size() == 1) continue;
    at::Tensor& gradient = parameters[i].tensor.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(parameters[i].tensor);
    gradient = plain("sum_gradients", gradient).contiguous();  // an expanded tensor cannot be written to
    gradients[i] = gradient;
  }
  for (const Bucket& bucket : buckets_of(parameters)) {
    if (bucket.copies().size() == 1) continue;
    const at::Tensor packed = bucket.pack(gradients);
    bucket.copies().all_reduce(buffer_of_reals(packed));
    bucket.unpack(packed, gradients);
  }
}

}  // namespace adjoin::parallel
