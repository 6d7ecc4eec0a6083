#include "adjoin/train/bench_matmul.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <functional>

#include "adjoin/base/error.hpp"
#include "adjoin/lab/measure/timing.hpp"
#include "adjoin/linalg/matmul.hpp"
#include "adjoin/partition/split.hpp"
#include "adjoin/train/peak_memory.hpp"

namespace adjoin::train {
namespace {

using linalg::Product;
using Seconds = BenchMatmulResult::Seconds;
using Multiply = std::function<at::Tensor(const at::Tensor& left, const at::Tensor& right)>;

/// One rank's factors, and the gradient of their product.
struct Factors {
  at::Tensor left, right, gradient;
};

Factors random_factors(const BenchMatmulOptions& options, int64_t rows) {
  const bool is_nt = options.product == Product::nt;
  const int64_t wide = options.length, narrow = options.features;
  return {at::randn({rows, is_nt ? narrow : wide}).requires_grad_(), at::randn({rows, narrow}).requires_grad_(),
          at::randn({rows, is_nt ? wide : narrow})};
}

/// Forward and backward once; all ranks begin and end together.
Seconds time_once(const Factors& factors, const Multiply& multiply, const Communicator& world, bool takes_part) {
  at::Tensor product;
  const auto time = [&](const auto& work) {
    world.barrier();
    const auto begin = std::chrono::steady_clock::now();
    if (takes_part) work();
    world.barrier();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  Seconds seconds;
  seconds.forward = time([&] { product = multiply(factors.left, factors.right); });
  seconds.backward = time([&] { torch::autograd::grad({product}, {factors.left, factors.right}, {factors.gradient}); });
  seconds.both = seconds.forward + seconds.backward;
  return seconds;
}

Seconds median(const std::vector<Seconds>& all) {
  const auto of = [&](double Seconds::*part) {
    std::vector<double> values;
    for (const Seconds& seconds : all) values.push_back(seconds.*part);
    return measure::median(values);
  };
  return {of(&Seconds::forward), of(&Seconds::backward), of(&Seconds::both)};
}

std::vector<int64_t> of_all_ranks(int64_t mine, const Communicator& world) {
  std::vector<int64_t> one{mine}, all(static_cast<size_t>(world.size()));
  world.all_gather(buffer(one), buffer(all), std::vector<int64_t>(all.size(), 1));
  return all;
}

Multiply distributed_product(const BenchMatmulOptions& options, const Communicator& world, const Split& rows) {
  const auto function = options.product == Product::nt   ? linalg::matmul_nt
                        : options.product == Product::nn ? linalg::matmul_nn
                                                         : linalg::matmul_tn;
  return [=](const at::Tensor& left, const at::Tensor& right) {
    return function(left, right, world, rows, options.chunk);
  };
}

/// LibTorch's own product, on the threads of all workers.
Multiply local_product(Product product) {
  return [=](const at::Tensor& left, const at::Tensor& right) {
    return product == Product::nt   ? at::matmul(left, right.t())
           : product == Product::nn ? at::matmul(left, right)
                                    : at::matmul(left.t(), right);
  };
}

BenchMatmulResult measure_matmul(const BenchMatmulOptions& options, const Communicator& world) {
  BenchMatmulResult result;
  const Split rows = Split::balanced(options.length, world.size(), 0);
  const Multiply distributed = distributed_product(options, world, rows), local = local_product(options.product);
  PeakMemory memory;
  const Factors mine = random_factors(options, rows.size(world.rank()));
  time_once(mine, distributed, world, true);
  result.peak_memory_bytes = of_all_ranks(memory.peak_bytes(), world);

  const bool is_local = world.rank() == 0;
  const Factors all = is_local ? random_factors(options, options.length) : Factors();
  const int threads = at::get_num_threads();
  const auto time_local = [&] {
    at::set_num_threads(is_local ? threads * world.size() : threads);
    const Seconds seconds = time_once(all, local, world, is_local);
    at::set_num_threads(threads);
    return seconds;
  };
  time_local();
  std::vector<Seconds> distributed_seconds, local_seconds;
  std::vector<double> ratios, forward_ratios;
  for (int64_t i = 0; i < options.times; ++i) {
    distributed_seconds.push_back(time_once(mine, distributed, world, true));
    local_seconds.push_back(time_local());
    ratios.push_back(distributed_seconds.back().both / local_seconds.back().both);
    forward_ratios.push_back(distributed_seconds.back().forward / local_seconds.back().forward);
  }
  result.distributed = median(distributed_seconds);
  result.local = median(local_seconds);
  result.ratio = measure::median(ratios);
  result.forward_ratio = measure::median(forward_ratios);
  return result;
}

}  // namespace

BenchMatmulResult bench_matmul(const BenchMatmulOptions& options) {
  require(options.length >= 1 && options.features >= 1 && options.times >= 1,
          "bench matmul: expected at least one row, one feature and one measurement");
  BenchMatmulResult result;
  run_workers(options.workers, [&](const Communicator& world) {
    const BenchMatmulResult measured = measure_matmul(options, world);
    if (speaks_for_process(world)) result = measured;
  });
  return result;
}

}  // namespace adjoin::train
