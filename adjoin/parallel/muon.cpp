#include "adjoin/parallel/muon.hpp"

#include <ATen/ops/addmm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/fixed/product.hpp"

namespace adjoin::parallel {
namespace {

constexpr int kSteps = 5;
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;  // of Jordan et al.
constexpr double kLeastNorm = 1e-7;                       // added to a norm, which may be 0
constexpr double kScale = 0.2;                            // of Liu et al.: about the size of AdamW's updates

/// Elements of the two matrices and the two products that `make_orthogonal` has at once.
int64_t scratch_of(int64_t rows, int64_t columns) {
  const int64_t smaller = std::min(rows, columns);
  return 2 * rows * columns + 2 * smaller * smaller;
}

/// Brings all singular values of a matrix near 1, by X <- a X + (b S + c S^2) X with S = X X^T, and multiplies it by the scale.
template <bool in_order>
void make_orthogonal(const at::Tensor& matrix, const at::Tensor& scratch) {
  const int64_t rows = matrix.size(0), columns = matrix.size(1);
  const int64_t smaller = std::min(rows, columns), larger = std::max(rows, columns);
  int64_t taken = 0;
  const auto take = [&](int64_t of_rows, int64_t of_columns) {
    taken += of_rows * of_columns;
    return scratch.narrow(0, taken - of_rows * of_columns, of_rows * of_columns).view({of_rows, of_columns});
  };
  const at::Tensor wide = rows > columns ? matrix.t() : matrix;
  at::Tensor x = take(smaller, larger), next = take(smaller, larger);
  at::Tensor square = take(smaller, smaller), factor = take(smaller, smaller);
  const double norm = at::linalg_vector_norm(matrix).item<double>();
  x.copy_(wide).mul_(1 / (norm + kLeastNorm));
  for (int step = 0; step < kSteps; ++step) {
    if (in_order) {
      square = nn::fixed::product(x, x.t());
      factor = nn::fixed::product(square, square).mul_(kC).add_(square, kB);
      x = nn::fixed::product(factor, x).add_(x, kA);
      continue;
    }
    at::mm_out(square, x, x.t());
    at::addmm_out(factor, square, square, square, kB, kC);
    at::addmm_out(next, x, factor, x, kA, 1);
    std::swap(x, next);
  }
  wide.copy_(x.mul_(kScale * std::sqrt(static_cast<double>(larger))));
}

double cost_of(int64_t rows, int64_t columns) {
  const auto m = static_cast<double>(std::min(rows, columns)), n = static_cast<double>(std::max(rows, columns));
  return 4 * m * m * n + 2 * m * m * m;
}

}  // namespace

Rule muon(MuonOptions options) {
  require(options.momentum >= 0 && options.momentum < 1,
          [&] { return "muon: expected a momentum in [0, 1), got " + std::to_string(options.momentum); });
  Rule rule = adamw(options.others);
  rule.name = "muon";
  rule.of_matrices = MatrixRule{.moments = {"momentum"},
                                .prepare =
                                    [momentum = options.momentum](const FlatPiece& piece) {
                                      piece.moments[0].mul_(momentum).add_(piece.gradient);
                                      piece.gradient.add_(piece.moments[0], momentum);
                                    },
                                .solve = options.in_order ? make_orthogonal<true> : make_orthogonal<false>,
                                .scratch = scratch_of,
                                .type = options.type,
                                .cost = cost_of,
                                .update =
                                    [](const FlatPiece& piece, const UpdateStep& step) {
                                      piece.value.mul_(1 - step.rate * step.decay).sub_(piece.gradient, step.rate);
                                    }};
  return rule;
}

}  // namespace adjoin::parallel
