#include "tests/support/odd_memory.hpp"

#include <ATen/ATen.h>

namespace adjoin::testing {

at::Tensor in_odd_memory(const at::Tensor& x, Numbers& draw) {
  const int64_t way = draw.from(0, 6);
  const auto negated = [](const at::Tensor& t) { return t.scalar_type() == at::kBool ? t : at::_neg_view(t.neg()); };
  switch (way) {
    case 0:
      return x.clone();
    case 1:
      return negated(x);
    case 2:
      if (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble)
        return at::imag(at::complex(at::zeros_like(x), -x).conj());
      return x.is_complex() ? at::conj_physical(x).conj() : negated(x);
    case 3:
      return at::stack({x, x}, -1).select(-1, draw.from(0, 1));  // with gaps
    case 4:
      return at::stack({x, x}, 0).select(0, 1);  // at an offset
    case 5:
      return x.dim() < 2 ? x : x.transpose(0, -1).contiguous().transpose(0, -1);
    default:
      return x.dim() < 2 ? negated(x) : negated(at::stack({x.mT(), x.mT()}, -1).select(-1, 0).mT());
  }
}

std::vector<std::pair<std::string, at::Tensor>> without_plain_memory(const at::Tensor& x) {
  const at::Tensor plain = x.detach().contiguous();
  std::vector<std::pair<std::string, at::Tensor>> tensors{{"one on meta", plain.to(at::kMeta)}};
  if (x.dim() > 0) tensors.emplace_back("one of the layout Sparse", plain.to_sparse());
  if (x.scalar_type() == at::kFloat && x.dim() > 0 && x.numel() > 0)
    tensors.emplace_back("one of the layout Mkldnn", plain.to_mkldnn());
  return tensors;
}

}  // namespace adjoin::testing
