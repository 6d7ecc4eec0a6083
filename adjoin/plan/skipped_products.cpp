#include "adjoin/plan/skipped_products.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

namespace adjoin::plan {
namespace {

// LibTorch looks at this key before a device's kernels and after autograd, and has no kernels for it in C++.
constexpr c10::DispatchKey kKey = c10::DispatchKey::Fake;

at::Tensor zeros_of_mm(const at::Tensor& a, const at::Tensor& b) {
  return at::zeros({a.size(0), b.size(1)}, a.options());
}

at::Tensor zeros_of_addmm(const at::Tensor& /*added*/, const at::Tensor& a, const at::Tensor& b, const at::Scalar&,
                          const at::Scalar&) {
  return zeros_of_mm(a, b);
}

at::Tensor zeros_of_bmm(const at::Tensor& a, const at::Tensor& b) {
  return at::zeros({a.size(0), a.size(1), b.size(2)}, a.options());
}

TORCH_LIBRARY_IMPL(_, Fake, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Fake, library) {
  library.impl("mm", zeros_of_mm);
  library.impl("addmm", zeros_of_addmm);
  library.impl("bmm", zeros_of_bmm);
}

}  // namespace

SkippedProducts::SkippedProducts() : guard_(kKey) {}

}  // namespace adjoin::plan
