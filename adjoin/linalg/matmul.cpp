#include "adjoin/linalg/matmul.hpp"

#include <ATen/core/grad_mode.h>

#include <memory>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/linalg/agreement.hpp"
#include "adjoin/linalg/products.hpp"
#include "adjoin/linalg/row_products.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin::linalg {
namespace {

/// The arguments of one call.
struct RowArguments {
  Product product;
  const at::Tensor &left, &right;
  const Communicator& group;
  const Split& rows;
  std::optional<int64_t> chunk;

  std::string operation() const { return std::string("matmul_") + name(product); }
};

/// "[*, 4, 9]" with as many leading dims as x.
std::vector<int64_t> expected_shape(const at::Tensor& x, int64_t rows, int64_t columns) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape[shape.size() - 2] = rows;
  shape[shape.size() - 1] = columns;
  return shape;
}

/// Checks what all ranks have alike.
void check_common(const RowArguments& a) {
  require(a.rows.parts() == a.group.size() && a.rows.is_exact(), [&] {
    return a.operation() + ": expected an exact split into " + std::to_string(a.group.size()) +
           " parts, one for each rank of the group, got " + (a.rows.is_exact() ? "" : "the covering ") +
           a.rows.to_string();
  });
  require(!a.chunk || *a.chunk >= 1,
          [&] { return a.operation() + ": expected a chunk of at least 1, got " + std::to_string(*a.chunk); });
}

/// Checks what only this rank knows.
void check_own(const RowArguments& a) {
  const std::string who = a.operation() + ": rank " + std::to_string(a.group.rank()) + ": ";
  for (const at::Tensor* x : {&a.left, &a.right}) {
    const std::string which = x == &a.left ? "left" : "right";
    require(x->defined() && x->layout() == at::kStrided && at::isFloatingType(x->scalar_type()),
            [&] { return who + "expected a dense tensor of floating-point numbers as " + which; });
    require(x->dim() >= 2, [&] {
      return who + "expected at least 2 dims, " + which + " is of shape " + shape_text(x->sizes().vec());
    });
  }
  require(a.left.scalar_type() == a.right.scalar_type(), [&] {
    return who + "expected left and right of one type, got " + c10::toString(a.left.scalar_type()) + " and " +
           c10::toString(a.right.scalar_type());
  });
  const int64_t mine = a.rows.size(a.group.rank());
  const auto right = expected_shape(a.right, mine, a.right.size(-1));
  const auto left = expected_shape(a.right, mine, a.product == Product::nt ? a.right.size(-1) : a.rows.size());
  require(a.left.sizes() == at::IntArrayRef(left) && a.right.sizes() == at::IntArrayRef(right), [&] {
    return who + "expected left of shape " + shape_text(left) + " and right of " + shape_text(right) + ", got " +
           shape_text(a.left.sizes().vec()) + " and " + shape_text(a.right.sizes().vec()) + "; the rows are " +
           a.rows.to_string();
  });
}

/// What must be the same on all ranks.
std::string description(const RowArguments& a) {
  const auto needs = [](const at::Tensor& x) { return at::GradMode::is_enabled() && x.requires_grad(); };
  const std::vector<int64_t> leading = a.right.sizes().slice(0, static_cast<size_t>(a.right.dim() - 2)).vec();
  return std::string(c10::toString(a.left.scalar_type())) + " with leading dims " + shape_text(leading) + ", " +
         std::to_string(a.right.size(-1)) + " features, chunk " + (a.chunk ? std::to_string(*a.chunk) : "auto") +
         ", left " + (needs(a.left) ? "with" : "without") + " and right " + (needs(a.right) ? "with" : "without") +
         " a gradient, rows " + a.rows.to_string();
}

at::Tensor multiply_rows(const RowArguments& a) {
  check_common(a);
  check_own(a);
  if (a.group.checked()) check_agreement(a.operation().c_str(), description(a), a.group);
  const auto rows = std::make_shared<RowProducts>(a.group, a.rows, a.chunk);
  using Tensor = const at::Tensor&;
  const Products products{.nt = [=](Tensor left, Tensor right) { return rows->nt(left, right); },
                          .nn = [=](Tensor left, Tensor right) { return rows->nn(left, right); },
                          .tn = [=](Tensor left, Tensor right) { return rows->tn(left, right); }};
  return multiply(a.product, products, a.left, a.right);
}

}  // namespace

at::Tensor matmul_nt(const at::Tensor& left, const at::Tensor& right, const Communicator& group, const Split& rows,
                     std::optional<int64_t> chunk) {
  return multiply_rows({Product::nt, left, right, group, rows, chunk});
}

at::Tensor matmul_nn(const at::Tensor& left, const at::Tensor& right, const Communicator& group, const Split& rows,
                     std::optional<int64_t> chunk) {
  return multiply_rows({Product::nn, left, right, group, rows, chunk});
}

at::Tensor matmul_tn(const at::Tensor& left, const at::Tensor& right, const Communicator& group, const Split& rows,
                     std::optional<int64_t> chunk) {
  return multiply_rows({Product::tn, left, right, group, rows, chunk});
}

}  // namespace adjoin::linalg
