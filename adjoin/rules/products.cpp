#include <ATen/ops/einsum.h>

#include <algorithm>

#include "adjoin/rules/operation.hpp"

namespace adjoin::rules {
namespace {

/// Labels of a product [*, rows, inner] x [*, inner, columns]; either may be a vector, and the dims before are broadcast.
struct MatrixLabels {
  static constexpr int kRows = 1000, kInner = 1001, kColumns = 1002;
  std::vector<int> a, b, result;

  MatrixLabels(const std::vector<int64_t>& a_shape, const std::vector<int64_t>& b_shape) {
    const size_t a_batch = a_shape.size() < 2 ? 0 : a_shape.size() - 2,
                 b_batch = b_shape.size() < 2 ? 0 : b_shape.size() - 2;
    const size_t batch = std::max(a_batch, b_batch);
    for (size_t dim = 0; dim < batch; ++dim) {
      const bool in_a = dim + a_batch >= batch, in_b = dim + b_batch >= batch;
      const int64_t of_a = in_a ? a_shape[dim + a_batch - batch] : 1, of_b = in_b ? b_shape[dim + b_batch - batch] : 1;
      const int label = static_cast<int>(dim);
      if (in_a) a.push_back(of_a == 1 && of_b != 1 ? Labels::kOne : label);
      if (in_b) b.push_back(of_b == 1 && of_a != 1 ? Labels::kOne : label);
      result.push_back(label);
    }
    if (a_shape.size() > 1) a.push_back(kRows), result.push_back(kRows);
    a.push_back(kInner);
    b.push_back(kInner);
    if (b_shape.size() > 1) b.push_back(kColumns), result.push_back(kColumns);
  }
};

std::vector<Way> matmul(const Operation& operation) {
  if (operation.operands.size() != 2) return {};
  const MatrixLabels labels(operation.shape(0), operation.shape(1));
  return labelled({.operands = {labels.a, labels.b}, .results = {labels.result}}, operation);
}

std::vector<Way> linear(const Operation& operation) {
  const Operand *x = operation.operand(0), *w = operation.operand(1);
  if (x == nullptr || w == nullptr || w->layout.dims() > 2) return {};
  const bool has_outputs = w->layout.dims() == 2;
  const int in = 1000, out = 1001;
  std::vector<int> of_x = numbered(x->layout.dims()), result = of_x;
  of_x.back() = in;
  result.pop_back();
  if (has_outputs) result.push_back(out);
  Labels labels{.operands = {of_x, has_outputs ? std::vector{out, in} : std::vector{in}}, .results = {result}};
  if (const Operand* bias = operation.operand(2)) {
    labels.operands.push_back(bias->layout.dims() == 1 && has_outputs ? std::vector{out} : std::vector<int>());
    labels.summands.insert(2);
  }
  return labelled(labels, operation);
}

/// self + a b, where self is broadcast.
std::vector<Way> addmm(const Operation& operation) {
  const Operand *self = operation.operand(0), *a = operation.operand(1), *b = operation.operand(2);
  if (self == nullptr || a == nullptr || b == nullptr || operation.is_in_place) return {};
  const MatrixLabels labels(a->layout.shape(), b->layout.shape());
  std::vector<int64_t> shape = a->layout.shape();
  if (b->layout.dims() > 1)
    shape.back() = b->layout.shape().back();
  else
    shape.pop_back();
  return labelled({.operands = {broadcast_labels(self->layout.shape(), shape, labels.result), labels.a, labels.b},
                   .results = {labels.result},
                   .summands = {0}},
                  operation);
}

/// Letters are labels; an equation with "..." or a repeated letter in one operand has no rule.
std::vector<Way> einsum(const Operation& operation) {
  std::string equation = operation.arguments[0].toStringRef();
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  if (equation.find('.') != std::string::npos || arrow == std::string::npos) return {};
  Labels labels{.operands = {{}}, .results = {{equation.begin() + static_cast<ptrdiff_t>(arrow) + 2, equation.end()}}};
  for (const char letter : equation.substr(0, arrow))
    if (letter == ',')
      labels.operands.emplace_back();
    else
      labels.operands.back().push_back(letter);
  if (labels.operands.size() != operation.operands.size()) return {};
  for (size_t i = 0; i < labels.operands.size(); ++i) {
    std::set<int> once(labels.operands[i].begin(), labels.operands[i].end());
    if (once.size() != static_cast<size_t>(operation.operands[i].layout.dims())) return {};
  }
  return labelled(labels, operation);
}

}  // namespace

Table product_rules() {
  return {{{"matmul", "mm", "bmm", "mv", "dot"}, matmul, /*is_product=*/true},
          {{"linear"}, linear, /*is_product=*/true},
          {{"addmm", "baddbmm", "addmv"}, addmm, /*is_product=*/true},
          {{"einsum"}, einsum, /*is_product=*/true}};
}

}  // namespace adjoin::rules
