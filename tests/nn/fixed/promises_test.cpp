#include "adjoin/nn/sequence/promises.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <limits>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/nn/fixed/column_sums.hpp"
#include "adjoin/nn/fixed/elementwise.hpp"
#include "adjoin/nn/fixed/layers.hpp"
#include "adjoin/nn/fixed/product.hpp"
#include "adjoin/nn/sequence/attention.hpp"
#include "adjoin/nn/sequence/key_value_cache.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/waves.hpp"

namespace adjoin::nn::fixed {
namespace {

using adjoin::testing::thrown_by;
using adjoin::testing::waves_of;

int64_t broken(const Promise& promise, uint64_t cases = 20) {
  int64_t count = 0;
  for (uint64_t seed = 0; seed < cases; ++seed) count += promise.result_of(seed) ? 0 : 1;
  return count;
}

// Before anything in this program uses MKL.
const bool has_asked = (ask_for_one_order(), true);

TEST(Promises, are_kept_on_this_machine) {
  const int threads = at::get_num_threads();
  for (const KeptPromise& promise : kept_promises(0)) {
    EXPECT_GE(promise.tried, 1) << promise.kernel;
    EXPECT_EQ(promise.broken, 0) << promise.kernel;
  }
  EXPECT_EQ(at::get_num_threads(), threads);
}

/// A number that differs from 1 by the last bit where a size is odd.
double nearly_one(int64_t size) {
  return size % 2 == 0 ? 1 : 1 + 0x1p-7;
}

TEST(Promises, that_are_broken_are_found) {
  const int threads = at::get_num_threads();
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto broken_by = [&](const std::vector<std::string>& inputs, const std::string& result,
                               const Operation& compute) { return broken(promise("", type, inputs, result, compute)); };
    using Inputs = std::vector<at::Tensor>;
    const auto product_times = [](const Inputs& x, int64_t size) { return at::mm(x[0], x[1]).mul_(nearly_one(size)); };
    EXPECT_GT(broken_by({"Rk", "kC"}, "RC", [&](const Inputs& x) { return product_times(x, x[0].size(0)); }), 0);
    EXPECT_GT(broken_by({"Rk", "kC"}, "RC", [&](const Inputs& x) { return product_times(x, x[1].size(1)); }), 0);
    EXPECT_GT(broken_by({"E"}, "E", [](const Inputs& x) { return x[0] * nearly_one(x[0].size(0)); }), 0);
    EXPECT_GT(broken_by({"Rc"}, "Rc", [](const Inputs& x) { return x[0] * nearly_one(at::get_num_threads()); }), 0);
    EXPECT_GT(broken_by({"rC"}, "C", [](const Inputs& x) { return at::sum(x[0], 0) * nearly_one(x[0].size(1)); }), 0);
  }
  at::set_num_threads(threads);
}

TEST(FixedKernels, compute_what_LibTorch_computes) {
  const at::Tensor a = waves_of({19, 33}).to(at::kFloat), b = waves_of({33, 7}, 1000).to(at::kFloat);
  EXPECT_LT((product(a, b).to(at::kDouble) - at::mm(a.to(at::kDouble), b.to(at::kDouble))).abs().max().item<double>(),
            1e-4);
  EXPECT_TRUE(at::equal(product(a.narrow(1, 0, 0), b.narrow(0, 0, 0)), at::zeros({19, 7})));
  EXPECT_EQ(product(a.narrow(0, 0, 0), b).sizes(), (std::vector<int64_t>{0, 7}));

  const std::vector<Range> leaves{{0, 5}, {5, 5}, {5, 19}};
  const at::Tensor x = waves_of({19, 7}, 50).to(at::kFloat);
  at::Tensor outer = at::ones({33, 7}), sums = at::ones({33});
  add_outer_products(outer, a, x, leaves);
  add_column_sums(sums, a, leaves);
  EXPECT_LT((outer - 1 - at::mm(a.t(), x)).abs().max().item<double>(), 1e-4);
  EXPECT_LT((sums - 1 - at::sum(a, 0)).abs().max().item<double>(), 1e-4);

  const at::Tensor odd = waves_of({3, 43}).to(at::kFloat);
  const at::Tensor given = elementwise({odd}, [](at::Tensor out, const auto& in) { at::gelu_out(out, in[0]); });
  EXPECT_LT((given - at::gelu(odd)).abs().max().item<double>(), 1e-6);
}

TEST(FixedKernels, attend_to_cached_keys_alike_in_any_heads) {
  const auto order = std::make_shared<FixedOrder>();
  const WithOrder with_order(order);
  const int64_t heads = 5, tokens = 37, size = 6;
  const at::Tensor k = waves_of({tokens, heads, size}).to(at::kFloat),
                   q = waves_of({1, 2 * heads, size}).to(at::kFloat);
  const auto attended = [&](Range of_heads) {
    KeyValueCache cache(tokens);
    const at::Tensor keys = k.narrow(1, of_heads.begin, of_heads.size());
    cache.append(keys, keys * 3);
    return cache.attend(q.narrow(1, 2 * of_heads.begin, 2 * of_heads.size()), 0.3);
  };
  const at::Tensor all = attended({0, heads});
  for (int64_t head = 0; head < heads; ++head)
    EXPECT_TRUE(at::equal(attended({head, head + 1}), all.narrow(1, 2 * head, 2))) << head;
}

TEST(FixedKernels, multiply_alike_in_pieces_of_every_size) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const int64_t k : {1, 7, 16, 40}) {
      const at::Tensor a = waves_of({50, k}).to(type), b = waves_of({k, 50}, 1000).to(type), all = product(a, b);
      for (int64_t rows = 1; rows <= 50; rows += 7)
        for (int64_t columns = 1; columns <= 50; columns += 7)
          EXPECT_TRUE(at::equal(product(a.narrow(0, 0, rows), b.narrow(1, 0, columns)),
                                all.narrow(0, 0, rows).narrow(1, 0, columns)))
              << rows << " x " << columns << " x " << k << " of " << c10::toString(type);
    }
}

TEST(FixedKernels, multiply_row_by_row_alike_in_pieces_and_nearly_as_LibTorch) {
  const int threads = at::get_num_threads();
  const auto order = std::make_shared<FixedOrder>();
  order->row_by_row = true;
  const WithOrder with_order(order);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const int64_t k : {1, 15, 16, 71}) {
      const at::Tensor a = waves_of({5, k}).to(type), b = waves_of({40, k}, 1000).to(type).t(), all = product(a, b);
      const double most = type == at::kFloat ? 1e-4 : 0.3;
      EXPECT_LT((all.to(at::kDouble) - at::mm(a.to(at::kDouble), b.to(at::kDouble))).abs().max().item<double>(), most);
      EXPECT_TRUE(at::equal(product(a, b.contiguous()), all));
      at::set_num_threads(3);
      for (int64_t row = 0; row < 5; ++row)
        for (int64_t columns = 1; columns <= 40; columns += 13)
          EXPECT_TRUE(at::equal(product(a.narrow(0, row, 1), b.narrow(1, 40 - columns, columns)),
                                all.narrow(0, row, 1).narrow(1, 40 - columns, columns)))
              << row << ", " << columns << " of " << c10::toString(type);
      at::set_num_threads(threads);
    }
}

/// oneDNN's and LibTorch's own code for the smallest 16-bit products differ in one of a thousand of these.
TEST(FixedKernels, multiply_small_bfloat16_alike_in_pieces) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(1);
  for (int i = 0; i < 3000; ++i)
    for (const int64_t rows : {16, 8}) {
      const at::Tensor a = at::randn({48, 15}, generator).to(at::kBFloat16),
                       b = at::randn({15, 48}, generator).to(at::kBFloat16);
      ASSERT_TRUE(at::equal(product(a.narrow(0, 0, rows), b.narrow(1, 0, 16)),
                            product(a, b).narrow(0, 0, rows).narrow(1, 0, 16)))
          << rows << " rows, " << i;
    }
}

TEST(FixedKernels, have_a_gradient_of_softmax_that_threads_do_not_change) {
  const int threads = at::get_num_threads();
  for (const int64_t columns : {5, 33, 40}) {
    const at::Tensor scores = waves_of({3000, columns}).to(at::kFloat),
                     gradient = waves_of({3000, columns}, 7).to(at::kFloat);
    const auto on = [&](int of_threads) {
      at::set_num_threads(of_threads);
      const at::Tensor x = scores.clone().requires_grad_();
      softmax_of_rows(x).backward(gradient);
      return x.grad();
    };
    EXPECT_TRUE(at::equal(on(1), on(3))) << columns;
  }
  at::set_num_threads(threads);
}

TEST(FixedKernels, look_up_no_negative_zeros) {
  const at::Tensor table = at::full({3, 4}, -0.0);
  EXPECT_FALSE(
      look_up(std::make_shared<FixedOrder>(), table, at::full({2}, 1, at::kLong)).signbit().any().item<bool>());
}

/// With blocks of tokens in tiles, else by whole samples.
void expect_alike_in_heads_and_samples(bool causal, int64_t blocks, int64_t heads, int64_t each, int64_t size) {
  const auto order = std::make_shared<FixedOrder>();
  order->numbers.tokens = blocks;
  const WithOrder with_order(order);
  const std::vector<int64_t> lengths{200, 3, 65, 64};  // a first block of 17 tokens, and blocks of 16
  const TokenRows rows = TokenRows::balanced(lengths, 1);
  const auto numbers = [&](int64_t of_heads, int64_t begin) {
    return waves_of({rows.size(), of_heads, size}, begin).to(at::kFloat);
  };
  const at::Tensor q = numbers(each * heads, 0), k = numbers(heads, 7000), v = numbers(heads, 90000),
                   g = numbers(each * heads, 500);
  const auto attended = [&](const TokenRows& some, Range of_rows, Range of_heads) {
    const auto part = [&](const at::Tensor& x, int64_t of_each) {
      return x.narrow(0, of_rows.begin, of_rows.size())
          .narrow(1, of_each * of_heads.begin, of_each * of_heads.size())
          .clone()  // other strides
          .requires_grad_();
    };
    const std::vector<at::Tensor> inputs{part(q, each), part(k, 1), part(v, 1)};
    const at::Tensor y = attention(inputs[0], inputs[1], inputs[2], some, Communicator(), {.causal = causal});
    y.backward(part(g, each).detach());
    return std::vector{y.detach(), inputs[0].grad(), inputs[1].grad(), inputs[2].grad()};
  };
  const auto all = attended(rows, {0, rows.size()}, {0, heads});
  for (int64_t sample = 0, row = 0; sample < std::ssize(lengths); ++sample) {
    const int64_t length = lengths[static_cast<size_t>(sample)], head = sample % heads;
    const auto alone = attended(TokenRows::balanced({length}, 1), {row, row + length}, {head, head + 1});
    for (size_t i = 0; i < alone.size(); ++i) {
      const int64_t of_each = i < 2 ? each : 1;
      EXPECT_TRUE(at::equal(alone[i], all[i].narrow(0, row, length).narrow(1, of_each * head, of_each)))
          << "sample " << sample << ", tensor " << i << ", heads of " << size << ", blocks " << blocks;
    }
    row += length;
  }
  const WithOrder in_any_order(nullptr);
  const auto expected = attended(rows, {0, rows.size()}, {0, heads});
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(at::allclose(all[i], expected[i], 1e-3, 1e-3))
        << "tensor " << i << ", heads of " << size << ", blocks " << blocks << (causal ? ", causal" : "");
}

TEST(FixedKernels, attend_alike_whatever_heads_and_samples_are_beside) {
  for (const bool causal : {false, true})
    for (const int64_t blocks : {1, 4})
      for (const int64_t size : {6, 10, 16}) {
        expect_alike_in_heads_and_samples(causal, blocks, /*heads=*/3, /*each=*/3, size);
        expect_alike_in_heads_and_samples(causal, blocks, /*heads=*/5, /*each=*/1, size);
      }
}

TEST(FixedKernels, attend_to_unknown_numbers_in_their_own_sample_alone) {
  const auto order = std::make_shared<FixedOrder>();
  order->numbers.tokens = 2;
  const WithOrder with_order(order);
  const at::Tensor q = waves_of({10, 1, 4}).to(at::kFloat), k = q.clone(), unknown = at::zeros({10}, at::kBool);
  q[1].fill_(std::numeric_limits<double>::quiet_NaN());
  k[8].fill_(std::numeric_limits<double>::quiet_NaN());
  unknown[1].fill_(true);
  unknown.narrow(0, 5, 5).fill_(true);
  const at::Tensor y = attention(q, k, k.nan_to_num(), TokenRows::balanced({5, 5}, 1), Communicator(), {});
  EXPECT_TRUE(at::equal(y.isnan().all(-1).flatten(), unknown)) << y;
}

TEST(FixedKernels, refuse_types_in_which_there_are_no_fixed_products) {
  const at::Tensor a = waves_of({2, 2});
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { product(a, a); }),
            "products with the same bits in every layout are for float32 and bfloat16, not Double");
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { add_column_sums(at::zeros({2}, at::kDouble), a, {}); }),
            "sums of columns are kept in float32");
}

}  // namespace
}  // namespace adjoin::nn::fixed
