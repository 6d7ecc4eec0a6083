#include "adjoin/parallel/gradients.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/parallel/copies.hpp"

namespace adjoin::parallel {
namespace {

// A gradient of at least so many elements travels alone, without a copy.
constexpr int64_t kTravelsAlone = 1 << 16;

/// Gradients of one element type that the same workers add.
struct Together {
  Communicator copies;
  std::vector<at::Tensor> gradients;
};

void sum_copies(const at::Tensor& gradient, const Communicator& copies) {
  copies.all_reduce(buffer(gradient.is_complex() ? at::view_as_real(gradient) : gradient));
}

void sum_together(const Together& together) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& gradient : together.gradients) flat.push_back(gradient.reshape({-1}));
  const at::Tensor all = at::cat(flat);
  sum_copies(all, together.copies);
  int64_t begin = 0;
  for (const at::Tensor& gradient : together.gradients) {
    gradient.copy_(all.narrow(0, begin, gradient.numel()).view(gradient.sizes()));
    begin += gradient.numel();
  }
}

/// Parameters whose copies were compared already. A tensor belongs to one rank, so all ranks of its copies find the same.
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
    if (!parameter.is_buffer && parameter.tensor.requires_grad() && compared.insert(parameter.tensor))
      fresh.push_back(parameter);
  check_copies(fresh, "sum_gradients");
}

}  // namespace

void sum_gradients(const torch::nn::Module& module) {
  sum_gradients(nn::parameters_of(module));
}

void sum_gradients(const std::vector<nn::Parameter>& parameters) {
  const at::NoGradGuard no_gradient;
  check_new_copies(parameters);
  std::map<std::pair<std::vector<int>, at::ScalarType>, Together> small;
  for (const nn::Parameter& parameter : parameters) {
    if (parameter.is_buffer || !parameter.tensor.requires_grad()) continue;
    const Communicator copies = nn::copies_of(parameter);
    if (copies.size() == 1) continue;
    at::Tensor& gradient = parameter.tensor.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(parameter.tensor);
    gradient = gradient.resolve_conj().resolve_neg().contiguous();  // an expanded one cannot be written to
    if (gradient.numel() >= kTravelsAlone) {
      sum_copies(gradient, copies);
      continue;
    }
    Together& together = small[{nn::ranks_of_copies(parameter), parameter.tensor.scalar_type()}];
    together.copies = copies;
    together.gradients.push_back(gradient);
  }
  for (const auto& [key, together] : small) sum_together(together);
}

}  // namespace adjoin::parallel
