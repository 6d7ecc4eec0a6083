#include "adjoin/nn/fixed/promises.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <random>

#include "adjoin/base/checksum.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/movement/on_threads.hpp"
#include "adjoin/nn/fixed/column_sums.hpp"
#include "adjoin/nn/fixed/elementwise.hpp"
#include "adjoin/nn/fixed/product.hpp"

namespace adjoin::nn::fixed {
namespace {

/// Draws the sizes and numbers of one case.
class Case {
 public:
  Case(uint64_t seed, at::ScalarType type)
      : random_(seed), generator_(at::make_generator<at::CPUGeneratorImpl>(seed)), type_(type) {}

  int64_t between(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }
  /// A small size as often as a large one.
  int64_t size(int64_t most) { return between(1, std::max<int64_t>(1, most >> between(0, 6))); }
  Range part_of(int64_t size) {
    const int64_t begin = between(0, size - 1);
    return {begin, begin + this->size(size - begin)};
  }
  at::Tensor numbers(at::IntArrayRef shape) { return at::randn(shape, generator_).to(type_); }
  void draw_threads() { at::set_num_threads(static_cast<int>(between(1, 4))); }

  bool are_same(const at::Tensor& one, const at::Tensor& other) {
    const at::Tensor a = one.contiguous(), b = other.contiguous();
    const auto bytes = static_cast<size_t>(a.nbytes());
    hash_ = mix(hash_ ^ checksum(b.const_data_ptr(), b.numel(), static_cast<int64_t>(b.element_size()), 0));
    return a.sizes() == b.sizes() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), bytes) == 0;
  }
  /// Of what was compared.
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0;
  std::mt19937_64 random_;
  at::Generator generator_;
  at::ScalarType type_;
};

std::string of(const std::string& name, at::ScalarType type) {
  return name + (type == at::kFloat ? " of float32" : " of bfloat16");
}

Promise promise(const std::string& name, at::ScalarType type, const std::function<bool(Case&)>& is_kept) {
  return {of(name, type), [type, is_kept](uint64_t seed) {
            Case drawn(seed, type);
            return is_kept(drawn) ? std::optional(drawn.hash()) : std::nullopt;
          }};
}

std::vector<at::Tensor> copied_parts(const std::vector<at::Tensor>& tensors, const Range& part) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : tensors) parts.push_back(tensor.narrow(0, part.begin, part.size()).clone());
  return parts;
}

/// Whether a range of the first dim gives the same alone.
bool is_kept_in_parts(Case& drawn, const std::vector<at::Tensor>& inputs, const Elements& compute) {
  drawn.draw_threads();
  const at::Tensor whole = compute(inputs);
  for (int i = 0; i < 8; ++i) {
    drawn.draw_threads();
    const Range part = drawn.part_of(whole.size(0));
    if (!drawn.are_same(compute(copied_parts(inputs, part)), whole.narrow(0, part.begin, part.size()))) return false;
  }
  return true;
}

std::vector<at::Tensor> inputs_of(Case& drawn, int count, at::IntArrayRef shape) {
  std::vector<at::Tensor> inputs;
  for (int i = 0; i < count; ++i) inputs.push_back(drawn.numbers(shape).mul_(2));
  return inputs;
}

Promise leaves_promise(at::ScalarType type) {
  return promise("sums of outer products", type, [](Case& drawn) {
    const int64_t rows = drawn.size(300), m = drawn.size(200), n = drawn.size(200), border = drawn.between(0, rows);
    const std::vector<Range> leaves{{0, border}, {border, rows}};
    const at::Tensor dy = drawn.numbers({rows, m}), x = drawn.numbers({rows, n});
    const auto sum_of = [&](const Range& outputs, const Range& inputs) {
      drawn.draw_threads();
      at::Tensor sum = at::zeros({outputs.size(), inputs.size()});
      add_outer_products(sum, dy.narrow(1, outputs.begin, outputs.size()), x.narrow(1, inputs.begin, inputs.size()),
                         leaves);
      return sum;
    };
    const at::Tensor whole = sum_of({0, m}, {0, n});
    const Range outputs = drawn.part_of(m), inputs = drawn.part_of(n);
    return drawn.are_same(sum_of(outputs, inputs),
                          whole.narrow(0, outputs.begin, outputs.size()).narrow(1, inputs.begin, inputs.size()));
  });
}

/// Attention's result and gradients, padded to a multiple of 16 tokens. Each sample and head is computed by itself on one thread: in
/// bfloat16 the kernel chooses its products by the number of samples, heads and threads. Shapes: [samples, heads, length, d]
std::vector<at::Tensor> attend(const std::vector<at::Tensor>& given, bool is_causal) {
  const int64_t samples = given[0].size(0), heads = given[0].size(1), length = given[0].size(2),
                width = given[0].size(3);
  const int64_t padded = (length + 15) / 16 * 16;
  std::vector<at::Tensor> x, results;
  for (const at::Tensor& tensor : given) {
    x.push_back(at::zeros({samples * heads, 1, padded, width}, tensor.options()));
    x.back().narrow(2, 0, length).copy_(tensor.reshape({samples * heads, 1, length, width}));
    results.push_back(at::zeros_like(x.back()));
  }
  std::optional<at::Tensor> mask;
  if (!is_causal && padded > length) {
    mask = at::zeros({1, 1, 1, padded}, given[0].options());
    mask->narrow(3, length, padded - length).fill_(-std::numeric_limits<float>::infinity());
  }
  on_one_thread_each(samples * heads, 1, [&](Range range) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      const auto of = [&](const at::Tensor& tensor) { return tensor.narrow(0, i, 1); };
      const auto [y, sums] =
          at::_scaled_dot_product_flash_attention_for_cpu(of(x[0]), of(x[1]), of(x[2]), 0, is_causal, mask);
      const auto [q, k, v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          of(x[3]), of(x[0]), of(x[1]), of(x[2]), y, sums, 0, is_causal, mask);
      of(results[0]).copy_(y), of(results[1]).copy_(q), of(results[2]).copy_(k), of(results[3]).copy_(v);
    }
  });
  for (at::Tensor& result : results) result = result.narrow(2, 0, length).reshape({samples, heads, length, width});
  return results;
}

Promise attention_promise(at::ScalarType type) {
  return promise("attention", type, [](Case& drawn) {
    const bool is_causal = drawn.between(0, 1) == 1;
    const int64_t samples = drawn.between(1, 4), heads = drawn.between(1, 4);
    const auto x = inputs_of(drawn, 4, {samples, heads, drawn.size(200), 16 * drawn.between(1, 4)});
    drawn.draw_threads();
    const auto whole = attend(x, is_causal);
    const int64_t dim = drawn.between(0, 1);
    const Range part = drawn.part_of(x[0].size(dim));
    std::vector<at::Tensor> parts;
    for (const at::Tensor& tensor : x) parts.push_back(tensor.narrow(dim, part.begin, part.size()).contiguous());
    drawn.draw_threads();
    const auto alone = attend(parts, is_causal);
    for (size_t i = 0; i < whole.size(); ++i)
      if (!drawn.are_same(alone[i], whole[i].narrow(dim, part.begin, part.size()))) return false;
    return true;
  });
}

void add_activations(std::vector<Promise>& all, at::ScalarType type) {
  const auto add = [&](const char* name, int inputs, void (*operation)(at::Tensor, const std::vector<at::Tensor>&)) {
    all.push_back(
        elements_promise(name, type, inputs, [operation](const auto& x) { return elementwise(x, operation); }));
  };
  using Inputs = std::vector<at::Tensor>;
  add("gelu", 1, [](at::Tensor out, const Inputs& x) { at::gelu_out(out, x[0]); });
  add("gelu's gradient", 2, [](at::Tensor out, const Inputs& x) { at::gelu_backward_out(out, x[0], x[1]); });
  add("gelu by tanh", 1, [](at::Tensor out, const Inputs& x) { at::gelu_out(out, x[0], "tanh"); });
  add("gelu by tanh's gradient", 2,
      [](at::Tensor out, const Inputs& x) { at::gelu_backward_out(out, x[0], x[1], "tanh"); });
  add("silu", 1, [](at::Tensor out, const Inputs& x) { at::silu_out(out, x[0]); });
  add("silu's gradient", 2, [](at::Tensor out, const Inputs& x) { at::silu_backward_out(out, x[0], x[1]); });
  add("tanh", 1, [](at::Tensor out, const Inputs& x) { at::tanh_out(out, x[0]); });
  add("tanh's gradient", 2, [](at::Tensor out, const Inputs& x) { at::tanh_backward_out(out, x[0], x[1]); });
}

void add_rows(std::vector<Promise>& all, at::ScalarType type) {
  all.push_back(rows_promise("softmax", type, 1, [](const auto& x) { return at::_softmax(x[0], 1, false); }));
  all.push_back(
      rows_promise("log of softmax", type, 1, [](const auto& x) { return at::_log_softmax(x[0], 1, false); }));
  all.push_back(rows_promise("layer norm", type, 1, [](const auto& x) {
    return std::get<0>(at::native_layer_norm(x[0], {x[0].size(1)}, {}, {}, 1e-5));
  }));
  all.push_back(rows_promise("layer norm's gradient", type, 2, [](const auto& x) {
    const int64_t features = x[0].size(1);
    const auto [y, mean, deviation] = at::native_layer_norm(x[0], {features}, {}, {}, 1e-5);
    return std::get<0>(
        at::native_layer_norm_backward(x[1], x[0], {features}, mean, deviation, {}, {}, {true, false, false}));
  }));
}

}  // namespace

Promise product_promise(const std::string& name, at::ScalarType type, const Product& product) {
  return promise(name, type, [product](Case& drawn) {
    const int64_t m = drawn.size(400), k = drawn.size(600), n = drawn.size(400);
    const at::Tensor a = drawn.numbers({m, k});
    const at::Tensor b = drawn.between(0, 1) == 0 ? drawn.numbers({k, n}) : drawn.numbers({n, k}).t();
    drawn.draw_threads();
    const at::Tensor whole = product(a, b);
    for (int i = 0; i < 4; ++i) {
      drawn.draw_threads();
      const Range rows = drawn.part_of(m), columns = drawn.part_of(n);
      const at::Tensor part = product(a.narrow(0, rows.begin, rows.size()), b.narrow(1, columns.begin, columns.size()));
      if (!drawn.are_same(part, whole.narrow(0, rows.begin, rows.size()).narrow(1, columns.begin, columns.size())))
        return false;
    }
    return true;
  });
}

Promise elements_promise(const std::string& name, at::ScalarType type, int inputs, const Elements& compute) {
  return promise(name, type, [inputs, compute](Case& drawn) {
    return is_kept_in_parts(drawn, inputs_of(drawn, inputs, {drawn.size(70000)}), compute);
  });
}

Promise rows_promise(const std::string& name, at::ScalarType type, int inputs, const Elements& compute) {
  return promise(name, type, [inputs, compute](Case& drawn) {
    return is_kept_in_parts(drawn, inputs_of(drawn, inputs, {drawn.size(300), drawn.size(800)}), compute);
  });
}

Promise columns_promise(const std::string& name, at::ScalarType type,
                        const std::function<at::Tensor(const at::Tensor&)>& sum) {
  return promise(name, type, [sum](Case& drawn) {
    const at::Tensor x = drawn.numbers({drawn.size(500), drawn.size(500)});
    drawn.draw_threads();
    const at::Tensor whole = sum(x);
    drawn.draw_threads();
    const Range part = drawn.part_of(x.size(1));
    return drawn.are_same(sum(x.narrow(1, part.begin, part.size())), whole.narrow(0, part.begin, part.size()));
  });
}

std::vector<Promise> promises() {
  std::vector<Promise> all;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    all.push_back(product_promise("products", type, product));
    all.push_back(leaves_promise(type));
    add_activations(all, type);
    add_rows(all, type);
    all.push_back(columns_promise("sums of columns", type, [](const at::Tensor& x) {
      at::Tensor sum = at::zeros({x.size(1)});
      const std::vector<Range> leaves{{0, x.size(0) / 3}, {x.size(0) / 3, x.size(0)}};
      add_column_sums(sum, x, leaves);
      return sum;
    }));
    all.push_back(attention_promise(type));
  }
  return all;
}

std::vector<KeptPromise> tried(const std::vector<Promise>& promises, double seconds) {
  const at::NoGradGuard no_gradient;
  const int threads = at::get_num_threads();
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::vector<KeptPromise> all;
  for (const Promise& promise : promises) all.push_back({promise.kernel});
  for (uint64_t seed = 0; seed == 0 || std::chrono::steady_clock::now() < end; ++seed)
    for (size_t i = 0; i < promises.size() && (seed == 0 || std::chrono::steady_clock::now() < end); ++i) {
      const std::optional<uint64_t> result = promises[i].result_of(seed);
      ++all[i].tried;
      if (!result) ++all[i].broken;
      if (seed == 0) all[i].first_result = result.value_or(0);
    }
  at::set_num_threads(threads);
  return all;
}

std::vector<KeptPromise> kept_promises(double seconds) {
  return tried(promises(), seconds);
}

const std::vector<KeptPromise>& promises_of_process() {
  static const std::vector<KeptPromise> once = kept_promises(0);
  return once;
}

}  // namespace adjoin::nn::fixed
