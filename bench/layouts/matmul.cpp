#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <memory>

#include "adjoin/base/error.hpp"
#include "adjoin/linalg/matmul.hpp"
#include "adjoin/linalg/products.hpp"
#include "adjoin/partition/split.hpp"
#include "bench/layouts/command.hpp"

namespace adjoin::bench {
namespace {

using linalg::Product;
using Multiply = std::function<at::Tensor(const at::Tensor& left, const at::Tensor& right)>;

constexpr std::string_view kProductNames[] = {"nt", "nn", "tn"};  // in the order of Product

struct MatmulOptions {
  SideBySideOptions run;
  Product product = Product::nt;
  std::optional<int64_t> chunk;  // none: auto
  std::string chunk_text = "auto";
  int64_t length = 8192, features = 768;  // T rows in total, and D
};

/// A product of random factors with this number of rows.
Pass pass_of(const Multiply& multiply, const MatmulOptions& options, int64_t rows) {
  const bool is_nt = options.product == Product::nt;
  const int64_t wide = options.length, narrow = options.features;
  const at::Tensor left = at::randn({rows, is_nt ? narrow : wide}).requires_grad_();
  const at::Tensor right = at::randn({rows, narrow}).requires_grad_();
  const at::Tensor gradient = at::randn({rows, is_nt ? wide : narrow});
  const auto product = std::make_shared<at::Tensor>();
  return {[=] { *product = multiply(left, right); },
          [=] {
            torch::autograd::grad({*product}, {left, right}, {gradient});
          }};
}

Multiply distributed_product(const MatmulOptions& options, const Communicator& world, const Split& rows) {
  const auto function = options.product == Product::nt   ? linalg::matmul_nt
                        : options.product == Product::nn ? linalg::matmul_nn
                                                         : linalg::matmul_tn;
  return [=](const at::Tensor& left, const at::Tensor& right) {
    return function(left, right, world, rows, options.chunk);
  };
}

Multiply local_product(Product product) {
  return [=](const at::Tensor& left, const at::Tensor& right) {
    return product == Product::nt   ? at::matmul(left, right.t())
           : product == Product::nn ? at::matmul(left, right)
                                    : at::matmul(left.t(), right);
  };
}

/// Times a product of matrices that are split over rows, forward and backward, in float32, beside LibTorch's own product on one
/// worker.
Comparison bench_matmul(const MatmulOptions& options) {
  const auto distributed = [&](const Communicator& world) {
    const Split rows = Split::balanced(options.length, world.size(), 0);
    return pass_of(distributed_product(options, world, rows), options, rows.size(world.rank()));
  };
  const auto local = [&](const Communicator&) {
    return pass_of(local_product(options.product), options, options.length);
  };
  return side_by_side(options.run, {{{"product", distributed}, {"one worker, all threads", local, true}}}).front();
}

void run_matmul(Command<MatmulOptions>& c) {
  c.product = static_cast<Product>(check_choice("--product", c.word, kProductNames));
  if (c.chunk_text != "auto") c.chunk = number_of(c.chunk_text, "--chunk", 1, kMost, "auto");
  check_product({{"--length", c.length}, {"--dim", c.features}}, kMost);
  const Comparison result = bench_matmul(c);
  if (!prints()) return;
  Report report{c.json};
  report.text << text_of(c.word, result);
  const Json row = {
      {"product", c.word}, {"ranks", c.ranks()}, {"length", c.length}, {"dim", c.features}, {"chunk", c.chunk_text}};
  report.json = with_measured(row, result);
  report.print();
}

}  // namespace

void add_matmul(Program& program) {
  const auto c = std::make_shared<Command<MatmulOptions>>();
  c->word = "nt";
  add_bench(program, "matmul", "Time a product of matrices split over rows, and on one worker", c, run_matmul,
            {text("--product", c->word, "nt|nn|tn", "A B^T, A B or A^T B"),
             text("--chunk", c->chunk_text, "INTEGER|auto", "Rows of each rank (nt) or features (nn, tn) of a round"),
             number("--length", c->length, "Rows of all ranks, T"), number("--dim", c->features, "Features, D")});
}

}  // namespace adjoin::bench
