#include "adjoin/linalg/matmul.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/linalg/products.hpp"
#include "adjoin/linalg/row_products.hpp"
#include "adjoin/movement/mappings.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/hosts_backend.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::linalg {
namespace {

using namespace adjoin::testing;
using ::testing::HasSubstr;

using Chunk = std::optional<int64_t>;

constexpr Product kProducts[] = {Product::nt, Product::nn, Product::tn};

at::Tensor laid_out(Product product, const at::Tensor& left, const at::Tensor& right, const Communicator& world,
                    const Split& rows, Chunk chunk) {
  const auto function = product == Product::nt ? matmul_nt : product == Product::nn ? matmul_nn : matmul_tn;
  return function(left, right, world, rows, chunk);
}

/// The same of whole matrices on one worker.
at::Tensor on_one_worker(Product product, const at::Tensor& left, const at::Tensor& right) {
  return product == Product::nt   ? left.matmul(right.transpose(-2, -1))
         : product == Product::nn ? left.matmul(right)
                                  : left.transpose(-2, -1).matmul(right);
}

/// Rows that are even, uneven, none in places, and out of order.
std::vector<Split> splits_of(int64_t rows, int parts) {
  std::vector<Split> splits{Split::balanced(rows, parts, 0), Split::balanced(rows, parts, 0, 3)};
  std::vector<std::vector<Range>> striped(static_cast<size_t>(parts));
  for (int64_t i = 0; i < rows; ++i) striped[static_cast<size_t>((i + 1) % parts)].push_back({i, i + 1});
  splits.push_back(Split::of_ranges(striped, rows, 0));
  return splits;
}

/// This rank's rows of a whole tensor of the same values on all ranks.
at::Tensor own_rows(const at::Tensor& whole, const Split& rows, const Communicator& world) {
  return take_block(whole, rows.along(whole.dim() - 2), world.rank());
}

std::vector<int64_t> shape(std::vector<int64_t> leading, int64_t rows, int64_t columns) {
  leading.insert(leading.end(), {rows, columns});
  return leading;
}

/// Left and right as wholes, of whole numbers from -3 to 3.
std::pair<at::Tensor, at::Tensor> whole_numbers(Product product, const std::vector<int64_t>& leading, int64_t rows,
                                                int64_t features, const Communicator& world) {
  const auto draw = [&](int64_t columns, int64_t seed) {
    return random_tensor(shape(leading, rows, columns), Kind::replicated, world, seed).mul(2).round().clamp(-3, 3);
  };
  return {draw(product == Product::nt ? features : rows, 1), draw(features, 2)};
}

/// 2 rows are fewer than some worlds have ranks.
void for_each_case(const Communicator& world, const std::vector<Chunk>& chunks,
                   const std::function<void(Product, const Split&, Chunk)>& check) {
  for (const int64_t size : {7, 2})
    for (const Product product : kProducts)
      for (const Split& rows : splits_of(size, world.size()))
        for (const Chunk chunk : chunks) {
          SCOPED_TRACE(std::string(name(product)) + ", rows " + rows.to_string() + ", chunk " +
                       (chunk ? std::to_string(*chunk) : "auto"));
          check(product, rows, chunk);
        }
}

TEST(Matmul, of_whole_numbers_is_exactly_that_of_the_gathered_matrices) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const std::vector<std::pair<std::vector<int64_t>, at::ScalarType>> kinds = {
        {{}, at::kBFloat16}, {{2}, at::kFloat}, {{2, 3}, at::kDouble}};
    for (const auto& [leading, type] : kinds)
      for_each_case(world, {Chunk(), 1, 2, 3, 7, 12}, [&](Product product, const Split& rows, Chunk chunk) {
        const auto [left, right] = whole_numbers(product, leading, rows.size(), 5, world);
        const at::Tensor y = laid_out(product, own_rows(left, rows, world).to(type),
                                      own_rows(right, rows, world).to(type), world, rows, chunk);
        const at::Tensor expected = own_rows(on_one_worker(product, left, right), rows, world);
        EXPECT_EQ(y.scalar_type(), type);
        EXPECT_TRUE(y.to(at::kDouble).equal(expected)) << y << expected;
      });
  });
}

TEST(Matmul, is_the_same_where_the_next_round_travels_meanwhile) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for_each_case(world, {1, 2, 7}, [&](Product product, const Split& rows, Chunk chunk) {
      const auto [left, right] = whole_numbers(product, {2}, rows.size(), 5, world);
      const RowProducts products(between_hosts(world), rows, chunk);
      const at::Tensor l = own_rows(left, rows, world), r = own_rows(right, rows, world);
      const at::Tensor y = product == Product::nt   ? products.nt(l, r)
                           : product == Product::nn ? products.nn(l, r)
                                                    : products.tn(l, r);
      EXPECT_TRUE(y.equal(own_rows(on_one_worker(product, left, right), rows, world))) << y;
    });
  });
}

TEST(Matmul, takes_tensors_however_they_lie_in_memory) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for_each_case(world, {Chunk(), 3}, [&](Product product, const Split& rows, Chunk chunk) {
      const auto [left, right] = whole_numbers(product, {2}, rows.size(), 5, world);
      const at::Tensor expected = own_rows(on_one_worker(product, left, right), rows, world);
      const at::Tensor l = own_rows(left, rows, world), r = own_rows(right, rows, world);
      const auto with_gaps = [](const at::Tensor& x) {
        const at::Tensor wide = at::empty({x.size(0), x.size(1), 2 * x.size(2)}, x.options());
        return wide.slice(2, 0, 2 * x.size(2), 2).copy_(x);
      };
      const auto transposed = [](const at::Tensor& x) { return x.permute({2, 1, 0}).contiguous().permute({2, 1, 0}); };
      EXPECT_TRUE(laid_out(product, with_gaps(l), with_gaps(r), world, rows, chunk).equal(expected));
      EXPECT_TRUE(laid_out(product, transposed(l), transposed(r), world, rows, chunk).equal(expected));

      const at::Tensor two = at::full({}, 2.0, at::kDouble), first = r.select(0, 0).unsqueeze(0).expand_as(r);
      const at::Tensor twos =
          on_one_worker(product, at::full_like(left, 2.0), right.select(0, 0).unsqueeze(0).expand_as(right));
      EXPECT_TRUE(laid_out(product, two.expand_as(l), first, world, rows, chunk).equal(own_rows(twos, rows, world)));
    });
  });
}

/// Values that depend on derivatives of first and second order of the product's sum with weights `w`, and their own.
std::vector<at::Tensor> derivatives(const std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>& product,
                                    const std::vector<at::Tensor>& leaves) {
  const at::Tensor &left = leaves[0], &right = leaves[1], &w = leaves[2];
  const at::Tensor y = product(left, right);
  std::vector<at::Tensor> all = torch::autograd::grad({y}, {left, right}, {w}, true, true);
  const auto second = torch::autograd::grad({all[0].pow(2).sum() + all[1].pow(3).sum()}, {left, right, w});
  all.insert(all.end(), second.begin(), second.end());
  all.push_back(y);
  return all;
}

TEST(Matmul, has_the_first_and_second_derivatives_of_one_worker) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for_each_case(world, {Chunk(), 2}, [&](Product product, const Split& rows, Chunk chunk) {
      const int64_t size = rows.size(), features = 5, columns = product == Product::nt ? features : size;
      std::vector<at::Tensor> wholes, owns;
      for (const int64_t n : {columns, features, product == Product::nt ? size : features}) {
        const auto seed = static_cast<int64_t>(wholes.size());
        wholes.push_back(random_tensor({2, size, n}, Kind::replicated, world, seed).requires_grad_());
        owns.push_back(own_rows(wholes.back().detach(), rows, world).clone().requires_grad_());
      }
      const auto found = derivatives(
          [&](const at::Tensor& l, const at::Tensor& r) { return laid_out(product, l, r, world, rows, chunk); }, owns);
      const auto expected =
          derivatives([&](const at::Tensor& l, const at::Tensor& r) { return on_one_worker(product, l, r); }, wholes);
      for (size_t i = 0; i < expected.size(); ++i) {
        const double scale = expected[i].abs().max().item<double>();
        EXPECT_TRUE(at::allclose(found[i], own_rows(expected[i], rows, world), 0, 1e-12 * scale)) << "derivative " << i;
      }
    });
  });
}

TEST(Matmul, keeps_the_other_factor_alone_where_one_requires_no_gradient) {
  for_each_world({2}, [](const Communicator& world) {
    const Split rows = Split::balanced(6, world.size(), 0);
    const auto [left, right] = whole_numbers(Product::nn, {}, 6, 3, world);
    for (const bool of_left : {true, false}) {
      const at::Tensor l = own_rows(left, rows, world).clone().requires_grad_(of_left);
      const at::Tensor r = own_rows(right, rows, world).clone().requires_grad_(!of_left);
      matmul_nn(l, r, world, rows).sum().backward();
      EXPECT_EQ(l.grad().defined(), of_left);
      EXPECT_EQ(r.grad().defined(), !of_left);
    }
  });
}

TEST(Matmul, between_hosts_makes_a_group_and_a_thread_once) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const auto made = std::make_shared<Made>();
    const Communicator group = between_hosts(world, made);
    const Split rows = Split::balanced(7, world.size(), 0);
    for (int step = 0; step < 2; ++step)
      for (const Product product : {Product::nn, Product::nt, Product::tn}) {
        const auto [left, right] = whole_numbers(product, {}, 7, 5, world);
        const at::Tensor l = own_rows(left, rows, world).clone().requires_grad_();
        const at::Tensor r = own_rows(right, rows, world).clone().requires_grad_();
        laid_out(product, l, r, group, rows, 2).sum().backward();
        EXPECT_EQ(*made, std::pair(1, 1)) << name(product) << " in step " << step;
      }
  });
}

/// The message of the InvalidArgument that this rank meets.
std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& e) {
    return e.what();
  }
  return "nothing was refused";
}

TEST(Matmul, in_checked_mode_refuses_on_all_ranks_what_does_not_fit_together) {
  for_each_checked_world({2, 3}, [](const Communicator& world) {
    const bool is_last = world.rank() + 1 == world.size();
    const Split rows = Split::balanced(6, world.size(), 0);
    const int64_t mine = rows.size(world.rank());
    const auto ones = [](const std::vector<int64_t>& sizes) { return at::ones(sizes); };
    const auto nt = [&](const std::vector<int64_t>& sizes, Chunk chunk = {}) {
      return refusal([&] { matmul_nt(ones(sizes), ones(sizes), world, rows, chunk); });
    };
    EXPECT_THAT(nt({mine, 4}, 0), HasSubstr("matmul_nt: expected a chunk of at least 1, got 0"));
    EXPECT_THAT(nt({mine, is_last ? 5 : 4}), HasSubstr("4 features, chunk auto"));
    EXPECT_THAT(nt({mine, is_last ? 5 : 4}), HasSubstr("; from rank " + std::to_string(world.size() - 1)));
    // As many elements, which no message would notice.
    EXPECT_THAT(nt(is_last ? std::vector<int64_t>{4, mine, 2} : std::vector<int64_t>{2, mine, 4}),
                HasSubstr("leading dims [4], 2 features"));
    EXPECT_THAT(nt({mine, 4}, is_last ? 2 : 1), HasSubstr("chunk 2"));
    EXPECT_THAT(refusal([&] {
                  const at::Tensor x = at::ones({mine, 4}, is_last ? at::kDouble : at::kFloat);
                  matmul_nt(x, x, world, rows);
                }),
                HasSubstr("Double with"));
    EXPECT_THAT(refusal([&] {
                  matmul_nn(ones({mine, 6}).requires_grad_(is_last), ones({mine, 4}), world, rows);
                }),
                HasSubstr("left with and right without a gradient"));
    EXPECT_THAT(refusal([&] {
                  matmul_tn(ones({mine, 6}), ones({mine, 4}), world, Split::balanced(6, world.size() + 1, 0));
                }),
                HasSubstr("matmul_tn: expected an exact split into"));
    EXPECT_TRUE(matmul_nt(ones({mine, 4}), ones({mine, 4}), world, rows).equal(at::full({mine, 6}, 4.0)));
  });
}

TEST(MatmulFailure, is_told_of_what_differs_by_its_messages_without_checked_mode) {
  const std::string message = failure_of<CommunicationError>(
      2,
      [](const Communicator& world) {
        const Split rows = Split::balanced(6, world.size(), 0);
        const at::Tensor x = at::ones({rows.size(world.rank()), world.rank() == 1 ? 5 : 4});
        matmul_nt(x, x, world, rows);
      },
      {.checked = false});
  EXPECT_THAT(message, HasSubstr("exchange #1 "));
}

TEST(MatmulFailure, names_the_rank_whose_tensor_does_not_fit) {
  const auto cause = [](const std::function<void(const Communicator&, const Split&, int64_t)>& call) {
    return refusal([&] {
      launch_threads(3, [&](const Communicator& world) {
        const Split rows = Split::balanced(7, world.size(), 0);
        call(world, rows, rows.size(world.rank()));
      });
    });
  };
  EXPECT_THAT(cause([](const Communicator& world, const Split& rows, int64_t mine) {
                const int64_t wrong = world.rank() == 1 ? mine + 1 : mine;
                matmul_nn(at::ones({wrong, 7}), at::ones({wrong, 2}), world, rows);
              }),
              HasSubstr("rank 1: matmul_nn: rank 1: expected left of shape [2, 7] and right of [2, 2], got [3, 7] and "
                        "[3, 2]; the rows are dim 0 of 7 as 3, 2, 2"));
  EXPECT_THAT(
      cause([](const Communicator& world, const Split& rows, int64_t mine) {
        matmul_tn(at::ones({mine, 7}), at::ones({mine, 2}, world.rank() == 2 ? at::kLong : at::kFloat), world, rows);
      }),
      HasSubstr("rank 2: expected a dense tensor of floating-point numbers as right"));
  EXPECT_THAT(cause([](const Communicator& world, const Split& rows, int64_t mine) {
                const at::Tensor x = at::ones({mine});
                matmul_nt(x, x, world, rows);
              }),
              HasSubstr("expected at least 2 dims, left is of shape ["));
  EXPECT_THAT(cause([](const Communicator& world, const Split& rows, int64_t mine) {
                matmul_nt(at::ones({mine, 2}), at::ones({mine, 2}, at::kDouble), world, rows);
              }),
              HasSubstr("expected left and right of one type, got Float and Double"));
}

}  // namespace
}  // namespace adjoin::linalg
