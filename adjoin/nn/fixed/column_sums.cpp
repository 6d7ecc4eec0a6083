#include "adjoin/nn/fixed/column_sums.hpp"

#include <ATen/Dispatch.h>

#include <algorithm>
#include <array>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/on_threads.hpp"

namespace adjoin::nn::fixed {
namespace {

constexpr int64_t kColumns = 64;  // summed together, in registers and the nearest cache

template <class Number>
void add_block(float* sum, const Number* x, int64_t row_length, int64_t columns, Range rows) {
  std::array<double, kColumns> total{};
  for (int64_t row = rows.begin; row < rows.end; ++row)
    for (int64_t column = 0; column < columns; ++column)
      total[static_cast<size_t>(column)] += static_cast<double>(x[row * row_length + column]);
  for (int64_t column = 0; column < columns; ++column)
    sum[column] += static_cast<float>(total[static_cast<size_t>(column)]);
}

}  // namespace

void add_column_sums(const at::Tensor& sum, const at::Tensor& x, std::span<const Range> leaves) {
  require(sum.scalar_type() == at::kFloat, "sums of columns are kept in float32");
  const at::Tensor rows = x.detach().contiguous();
  const int64_t length = rows.size(1);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, rows.scalar_type(), "add_column_sums", [&] {
    on_one_thread_each(length, kColumns, [&](Range part) {
      for (int64_t column = part.begin; column < part.end; column += kColumns)
        for (const Range& leaf : leaves)
          if (leaf.size() > 0)
            add_block(sum.mutable_data_ptr<float>() + column, rows.const_data_ptr<scalar_t>() + column, length,
                      std::min(kColumns, part.end - column), leaf);
    });
  });
}

void add_rows(const at::Tensor& sum, const at::Tensor& ids, const at::Tensor& x, std::span<const Range> leaves) {
  require(sum.scalar_type() == at::kFloat, "sums of rows are kept in float32");
  const at::Tensor rows = x.detach().contiguous(), numbers = ids.contiguous();
  const int64_t length = rows.size(1);
  const auto* const to = numbers.const_data_ptr<int64_t>();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, rows.scalar_type(), "add_rows", [&] {
    on_one_thread_each(length, kColumns, [&](Range part) {
      for (const Range& leaf : leaves)
        for (int64_t row = leaf.begin; row < leaf.end; ++row) {
          float* const of = sum.mutable_data_ptr<float>() + to[row] * length;
          const scalar_t* const from = rows.const_data_ptr<scalar_t>() + row * length;
          for (int64_t column = part.begin; column < part.end; ++column) of[column] += static_cast<float>(from[column]);
        }
    });
  });
}

}  // namespace adjoin::nn::fixed
