#include "adjoin/nn/sequence/promises.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "adjoin/base/checksum.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/nn/fixed/column_sums.hpp"
#include "adjoin/nn/fixed/layers.hpp"
#include "adjoin/nn/fixed/product.hpp"
#include "adjoin/nn/sequence/attention.hpp"

namespace adjoin::nn::fixed {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr int kParts = 3;  // of each result

/// The largest sizes: of elements, rows and columns, a product's inner dim, and attention's samples, heads, tokens and features.
const std::map<char, int64_t> kMost{{'E', 70000}, {'R', 300},  {'r', 300}, {'C', 400}, {'c', 800}, {'M', 200},
                                    {'N', 200},   {'k', 4000}, {'S', 4},   {'H', 4},   {'t', 200}, {'d', 64}};

/// Draws the sizes and numbers of one case.
class Case {
 public:
  explicit Case(uint64_t seed) : random_(seed), generator_(at::make_generator<at::CPUGeneratorImpl>(seed)) {}

  int64_t between(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }
  /// A small size as often as a large one.
  int64_t size(int64_t most) { return between(1, std::max(std::min<int64_t>(most, 4), most >> between(0, 6))); }
  Range part_of(int64_t size) {
    const int64_t begin = between(0, size - 1);
    return {begin, begin + this->size(size - begin)};
  }
  at::Tensor numbers(at::IntArrayRef shape) { return at::randn(shape, generator_).mul_(2); }
  void draw_threads() { at::set_num_threads(static_cast<int>(between(1, 4))); }

 private:
  std::mt19937_64 random_;
  at::Generator generator_;
};

/// An operation's result beside the gradients of its inputs, all of one shape; the last input is the result's gradient.
Operation with_gradients(const Operation& operation) {
  return [operation](const Tensors& inputs) {
    const at::AutoGradMode with_graph(true);
    Tensors x;
    for (const at::Tensor& input : inputs) x.push_back(input.detach().requires_grad_());
    const at::Tensor of_y = x.back().detach();
    x.pop_back();
    const at::Tensor y = operation(x);
    Tensors all = torch::autograd::grad({y}, x, {of_y});
    all.push_back(y.detach());
    return at::stack(all, -1);
  };
}

at::Tensor add_by_leaves(const std::vector<int64_t>& shape, int64_t rows,
                         const std::function<void(const at::Tensor& sum, std::span<const Range> leaves)>& add) {
  const at::Tensor sum = at::zeros(shape);
  add(sum, std::vector<Range>{{0, rows / 3}, {rows / 3, rows}});
  return sum;
}

/// Of samples of one length: [samples, heads, tokens, features].
at::Tensor attended(const Tensors& x, bool causal) {
  const int64_t samples = x[0].size(0), tokens = x[0].size(2);
  const WithOrder with_order(std::make_shared<FixedOrder>());
  const auto rows = [](const at::Tensor& t) { return t.transpose(1, 2).flatten(0, 1); };
  const TokenRows of_samples = TokenRows::balanced(std::vector(static_cast<size_t>(samples), tokens), 1);
  return attention(rows(x[0]), rows(x[1]), rows(x[2]), of_samples, Communicator(), {.causal = causal})
      .unflatten(0, {samples, tokens})
      .transpose(1, 2);
}

}  // namespace

Promise promise(const std::string& name, at::ScalarType type, const std::vector<std::string>& inputs,
                const std::string& result, const Operation& compute) {
  const auto of_case = [=](uint64_t seed) -> std::optional<uint64_t> {
    Case drawn(seed);
    std::map<char, int64_t> sizes;
    Tensors x;
    for (const std::string& dims : inputs) {
      std::vector<int64_t> shape;
      for (const char dim : dims) {
        const auto [found, is_new] = sizes.try_emplace(dim);
        if (is_new) found->second = drawn.size(kMost.at(dim));
        shape.push_back(found->second);
      }
      x.push_back(drawn.numbers(shape).to(type));
    }
    drawn.draw_threads();
    const at::Tensor whole = compute(x);
    uint64_t hash = 0;
    for (int i = 0; i < kParts; ++i) {
      std::map<char, Range> cut;
      for (const char dim : result)
        if (std::isupper(dim)) cut[dim] = drawn.part_of(sizes[dim]);
      const auto part_of = [&](at::Tensor t, const std::string& dims) {
        for (int64_t dim = 0; dim < std::ssize(dims); ++dim)
          if (const auto found = cut.find(dims[static_cast<size_t>(dim)]); found != cut.end())
            t = t.narrow(dim, found->second.begin, found->second.size());
        return t;
      };
      Tensors parts;
      for (size_t input = 0; input < x.size(); ++input) parts.push_back(part_of(x[input], inputs[input]));
      drawn.draw_threads();
      const at::Tensor alone = compute(parts).contiguous(), expected = part_of(whole, result).contiguous();
      if (alone.sizes() != expected.sizes() ||
          std::memcmp(alone.const_data_ptr(), expected.const_data_ptr(), alone.nbytes()) != 0)
        return std::nullopt;
      hash = mix(hash ^ checksum(alone.const_data_ptr(), alone.numel(), alone.element_size(), 0));
    }
    return hash;
  };
  return {name + (type == at::kFloat ? " of float32" : " of bfloat16"), of_case};
}

std::vector<Promise> promises() {
  std::vector<Promise> all;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto add = [&](const char* name, const std::vector<std::string>& inputs, const char* result,
                         const Operation& compute) { all.push_back(promise(name, type, inputs, result, compute)); };
    add("products", {"Rk", "kC"}, "RC", [](const Tensors& x) { return product(x[0], x[1]); });
    add("products of transposed factors", {"Rk", "Ck"}, "RC", [](const Tensors& x) { return product(x[0], x[1].t()); });
    add("sums of outer products", {"rM", "rN"}, "MN", [](const Tensors& x) {
      return add_by_leaves({x[0].size(1), x[1].size(1)}, x[0].size(0),
                           [&](const at::Tensor& sum, auto leaves) { add_outer_products(sum, x[0], x[1], leaves); });
    });
    add("sums of columns", {"rC"}, "C", [](const Tensors& x) {
      return add_by_leaves({x[0].size(1)}, x[0].size(0),
                           [&](const at::Tensor& sum, auto leaves) { add_column_sums(sum, x[0], leaves); });
    });
    for (const auto& [name, curve] :
         {std::pair("gelu", Curve::gelu), {"gelu by tanh", Curve::gelu_tanh}, {"silu", Curve::silu}})
      add(name, {"E", "E"}, "E", with_gradients([curve](const Tensors& x) { return activated(x[0], curve); }));
    add("tanh", {"E", "E"}, "E", with_gradients([](const Tensors& x) { return x[0].tanh(); }));
    add("softmax", {"Rc"}, "Rc", [](const Tensors& x) { return at::softmax(x[0], 1); });
    add("log of softmax", {"Rc", "Rc"}, "Rc",
        with_gradients([](const Tensors& x) { return at::log_softmax(x[0], 1); }));
    add("layer norm", {"Rc", "Rc"}, "Rc",
        with_gradients([](const Tensors& x) { return at::layer_norm(x[0], {x[0].size(1)}); }));
    for (const bool causal : {false, true})
      add(causal ? "causal attention" : "attention", {"SHtd", "SHtd", "SHtd", "SHtd"}, "SHtd",
          with_gradients([causal](const Tensors& x) { return attended(x, causal); }));
  }
  return all;
}

void ask_for_one_order() {
#if defined(__x86_64__)
  if (__builtin_cpu_is("intel") == 0) return;
  ::setenv("MKL_CBWR", "AUTO,STRICT", /*replace=*/0);
  ::setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16", /*replace=*/0);  // without AMX
#endif
}

std::vector<KeptPromise> kept_promises(double seconds) {
  const std::vector<Promise> all = promises();
  const at::NoGradGuard no_gradient;
  const int threads = at::get_num_threads();
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::vector<KeptPromise> kept;
  for (const Promise& promise : all) kept.push_back({promise.kernel});
  for (uint64_t seed = 0; seed == 0 || std::chrono::steady_clock::now() < end; ++seed)
    for (size_t i = 0; i < all.size() && (seed == 0 || std::chrono::steady_clock::now() < end); ++i) {
      const std::optional<uint64_t> result = all[i].result_of(seed);
      ++kept[i].tried;
      if (!result) ++kept[i].broken;
      if (seed == 0) kept[i].first_result = result.value_or(0);
    }
  at::set_num_threads(threads);
  return kept;
}

const std::vector<KeptPromise>& promises_of_process() {
  static const std::vector<KeptPromise> once = kept_promises(0);
  return once;
}

}  // namespace adjoin::nn::fixed
