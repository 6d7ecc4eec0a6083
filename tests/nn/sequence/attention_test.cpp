#include "adjoin/nn/sequence/attention.hpp"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adjoin/movement/mappings.hpp"
#include "adjoin/nn/dropout.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/hosts_backend.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

using Method = AttentionMethod;
using Lengths = std::vector<int64_t>;

constexpr Method kMethods[] = {Method::ring, Method::gathered, Method::ulysses};
const char* method_name(Method method) {
  return method == Method::ring ? "ring" : method == Method::gathered ? "gathered" : "ulysses";
}

struct HeadSizes {
  int64_t queries = 2, keys = 2, size = 4, value_size = 4;
};

/// The rows of all workers, of samples one behind another: q, k and v.
std::vector<at::Tensor> whole_qkv(int64_t rows, const HeadSizes& heads, const Communicator& world) {
  const auto draw = [&](int64_t count, int64_t size, int64_t seed) {
    return random_tensor({rows, count, size}, Kind::replicated, world, seed);
  };
  return {draw(heads.queries, heads.size, 1), draw(heads.keys, heads.size, 2), draw(heads.keys, heads.value_size, 3)};
}

/// This worker's rows of q, k and v, whose gradients are wanted.
std::vector<at::Tensor> own_qkv(const TokenRows& rows, const HeadSizes& heads, const Communicator& world) {
  std::vector<at::Tensor> own;
  for (const at::Tensor& x : whole_qkv(rows.size(), heads, world))
    own.push_back(take_block(x, rows.split(), world.rank()).clone().requires_grad_());
  return own;
}

using OfSample =
    std::function<at::Tensor(int64_t sample, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)>;

/// Attention of each sample alone, of [1, heads, tokens, size] with as many heads of keys as of queries.
at::Tensor of_each_sample(const std::vector<at::Tensor>& qkv, const Lengths& lengths, const OfSample& of_sample) {
  const int64_t each = qkv[0].size(1) / qkv[1].size(1);
  std::vector<at::Tensor> results;
  int64_t begin = 0;
  for (size_t sample = 0; sample < lengths.size(); begin += lengths[sample++]) {
    if (lengths[sample] == 0) continue;
    const auto rows = [&](const at::Tensor& x) {
      return x.narrow(0, begin, lengths[sample]).transpose(0, 1).unsqueeze(0);
    };
    results.push_back(of_sample(static_cast<int64_t>(sample), rows(qkv[0]), rows(qkv[1]).repeat_interleave(each, 1),
                                rows(qkv[2]).repeat_interleave(each, 1))
                          .squeeze(0)
                          .transpose(0, 1));
  }
  return at::cat(results);
}

/// What LibTorch has for one worker.
at::Tensor by_libtorch(const std::vector<at::Tensor>& qkv, const Lengths& lengths, const AttentionOptions& options) {
  return of_each_sample(qkv, lengths, [&](int64_t, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    return at::scaled_dot_product_attention(q, k, v, {}, 0.0, options.causal, options.scale);
  });
}

/// The formula, with masks that may hide rows whole, and with dropout.
at::Tensor by_formula(const std::vector<at::Tensor>& qkv, const Lengths& lengths, const AttentionOptions& options) {
  return of_each_sample(
      qkv, lengths, [&](int64_t sample, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
        const int64_t tokens = q.size(2);
        at::Tensor hidden = at::zeros({tokens, tokens}, at::kBool);
        if (options.mask) hidden = options.mask(sample, {0, tokens}, {0, tokens});
        if (options.causal) hidden = hidden.logical_or(at::ones({tokens, tokens}, at::kBool).triu(1));
        const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3))));
        at::Tensor p = at::softmax((at::matmul(q, k.transpose(-1, -2)) * scale).masked_fill(hidden, -1e300), -1)
                           .masked_fill(hidden.all(-1, true), 0);
        if (options.drops()) {
          const ScoresPlace all{
              .sample = options.step.first_sample + sample, .queries = {0, tokens}, .first_head = options.first_head};
          p = dropout_rows(p, options.dropout, attention_words(options.name, q.size(1), all, options.step));
        }
        return at::matmul(p, v);
      });
}

using OnOneWorker = at::Tensor (*)(const std::vector<at::Tensor>&, const Lengths&, const AttentionOptions&);

/// Compares the result and the gradients of q, k and v.
void expect_attention_of_one_worker(const Communicator& world, const TokenRows& rows, const HeadSizes& heads,
                                    const AttentionOptions& options, OnOneWorker on_one_worker) {
  SCOPED_TRACE(std::string(method_name(options.method)) + ", " + rows.to_string() + ", heads " +
               std::to_string(heads.queries) + "/" + std::to_string(heads.keys));
  const Split split = rows.split();
  const auto mine = [&](const at::Tensor& x) { return take_block(x, split, world.rank()); };
  const std::vector<at::Tensor> whole = whole_qkv(rows.size(), heads, world), own = own_qkv(rows, heads, world);
  for (const at::Tensor& x : whole) x.requires_grad_();
  const at::Tensor y = attention(own[0], own[1], own[2], rows, world, options);
  const at::Tensor expected = on_one_worker(whole, rows.lengths(), options);
  ASSERT_EQ(y.sizes(), mine(expected).sizes());
  EXPECT_TRUE(at::allclose(y, mine(expected), 0, 1e-10)) << "results differ";
  const at::Tensor weights = random_tensor(expected.sizes(), Kind::replicated, world, 4);
  (y * mine(weights)).sum().backward();
  (expected * weights).sum().backward();
  for (size_t i = 0; i < own.size(); ++i)
    EXPECT_TRUE(at::allclose(own[i].grad(), mine(whole[i].grad()), 0, 1e-10)) << "gradients of "
                                                                              << "qkv"[i] << " differ";
}

/// Cut over the workers evenly, both ways, and with a first worker that holds nothing of several.
std::vector<TokenRows> ways_to_cut(const Lengths& lengths, int workers) {
  std::vector<TokenRows> ways{TokenRows::balanced(lengths, workers), TokenRows::zigzag(lengths, workers)};
  std::vector<std::vector<Run>> runs(static_cast<size_t>(workers));
  for (size_t sample = 0; sample < lengths.size(); ++sample)
    runs[workers == 1 ? 0 : 1 + sample % static_cast<size_t>(workers - 1)].push_back(
        {static_cast<int64_t>(sample), {0, lengths[sample]}});
  ways.push_back(TokenRows::of_runs(runs, lengths));
  return ways;
}

TEST(Attention, is_that_of_one_worker_for_samples_of_any_lengths) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const Method method : kMethods)
      for (const Lengths& lengths : {Lengths{9}, Lengths{5, 0, 3, 1}, Lengths{1}})
        for (const TokenRows& rows : ways_to_cut(lengths, world.size()))
          for (const bool causal : {false, true})
            expect_attention_of_one_worker(world, rows, {.queries = 3, .keys = 3}, {.method = method, .causal = causal},
                                           by_libtorch);
  });
}

TEST(Attention, shares_heads_of_keys_and_takes_values_of_another_size) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const Method method : kMethods)
      for (const HeadSizes& heads : {HeadSizes{6, 3}, HeadSizes{4, 1}, HeadSizes{2, 2, 4, 3}, HeadSizes{4, 2, 3, 5}})
        expect_attention_of_one_worker(world, TokenRows::zigzag({7, 2}, world.size()), heads,
                                       {.method = method, .scale = 0.7, .causal = true}, by_libtorch);
  });
}

/// Hides every third score, and all of token 1 of sample 0.
at::Tensor every_third(int64_t sample, Range queries, Range keys) {
  const at::Tensor q = at::arange(queries.begin, queries.end).unsqueeze(1), k = at::arange(keys.begin, keys.end);
  const at::Tensor hidden = (q + 2 * k + sample).remainder(3) == 0;
  return sample == 0 ? hidden.logical_or(q == 1) : hidden;
}

TEST(Attention, hides_what_a_function_says_and_gives_zeros_where_all_is_hidden) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const Method method : kMethods)
      for (const bool causal : {false, true})
        for (const TokenRows& rows : ways_to_cut({7, 4}, world.size()))
          expect_attention_of_one_worker(world, rows, {.queries = 4, .keys = 2},
                                         {.method = method, .causal = causal, .mask = every_third}, by_formula);
  });
}

TEST(Attention, hides_what_a_tensor_says) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const TokenRows rows = TokenRows::zigzag({6, 3}, world.size());
    const at::Tensor hidden = at::zeros({1, rows.size(), rows.size()}, at::kBool);
    for (const int64_t sample : {0, 1}) {
      const int64_t begin = rows.offset(sample), count = rows.lengths()[static_cast<size_t>(sample)];
      hidden[0].narrow(0, begin, count).narrow(1, begin, count).copy_(every_third(sample, {0, count}, {0, count}));
    }
    const at::Tensor mine = take_block(hidden, rows.split().along(1), world.rank());
    for (const Method method : {Method::ring, Method::gathered}) {
      const std::vector<at::Tensor> whole = whole_qkv(rows.size(), {}, world);
      const auto own = [&](size_t i) { return take_block(whole[i], rows.split(), world.rank()); };
      const at::Tensor y = attention(own(0), own(1), own(2), rows, world,
                                     {.method = method, .mask = mask_of_rows(mine, rows, world.rank())});
      const at::Tensor expected = by_formula(whole, rows.lengths(), {.mask = every_third});
      EXPECT_TRUE(at::allclose(y, take_block(expected, rows.split(), world.rank()), 0, 1e-10)) << method_name(method);
    }
  });
}

TEST(Attention, drops_the_probabilities_that_one_worker_drops) {
  const Step step{.seed = 3, .number = 2, .training = true, .first_sample = 5};
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    for (const Method method : kMethods)
      for (const bool masked : {false, true})
        for (const TokenRows& rows : ways_to_cut({7, 4}, world.size())) {
          AttentionOptions options{.method = method, .causal = masked, .dropout = 0.4, .name = "a", .step = step};
          if (masked) options.mask = every_third;
          expect_attention_of_one_worker(world, rows, {.queries = 4, .keys = 2}, options, by_formula);
        }
  });
}

TEST(Attention, takes_whole_samples_of_about_equal_length_together) {
  // One behind another, apart, filled up, and too short to be with the others.
  for (const Lengths& lengths : {Lengths{5, 5, 5}, Lengths{70, 3, 70, 60, 0, 70, 9, 35}, Lengths{1, 33, 34}})
    for (const bool causal : {false, true})
      for (const int64_t keys : {1, 2})
        expect_attention_of_one_worker(Communicator(), TokenRows::balanced(lengths, 1), {.queries = 2, .keys = keys},
                                       {.causal = causal}, by_libtorch);
}

/// How often this thread calls LibTorch's fused attention while one of these lives, forward and backward.
class KernelCalls {
 public:
  KernelCalls() {
    count() = 0;
    handle_ =
        at::addThreadLocalCallback(at::RecordFunctionCallback(&KernelCalls::see).scopes({at::RecordScope::FUNCTION}));
  }
  ~KernelCalls() { at::removeCallback(handle_); }
  KernelCalls(const KernelCalls&) = delete;
  KernelCalls& operator=(const KernelCalls&) = delete;

  static int& count() {
    thread_local int calls = 0;
    return calls;
  }

 private:
  static std::unique_ptr<at::ObserverContext> see(const at::RecordFunction& function) {
    count() +=
        std::string_view(function.name()).find("_scaled_dot_product_flash_attention_for_cpu") != std::string_view::npos;
    return nullptr;
  }
  at::CallbackHandle handle_ = 0;
};

TEST(Attention, takes_samples_of_equal_length_through_the_kernel_in_one_call) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    for (const Method method : {Method::ring, Method::ulysses}) {
      if (method == Method::ring && world.size() > 1) continue;  // whose tiles are of one sample each
      const Lengths lengths(16, 6);
      const TokenRows rows = TokenRows::balanced(lengths, world.size());
      const auto qkv = own_qkv(rows, {.queries = 8, .keys = 4}, world);
      const KernelCalls kernel;
      const at::Tensor y = attention(qkv[0], qkv[1], qkv[2], rows, world, {.method = method, .causal = true});
      EXPECT_EQ(kernel.count(), 1) << method_name(method);
      y.sum().backward();
      EXPECT_EQ(kernel.count(), 2) << method_name(method);
    }
  });
}

TEST(Attention, between_hosts_makes_a_group_and_a_thread_once) {
  for_each_world({2, 3}, [](const Communicator& world) {
    for (const Method method : kMethods) {
      const auto made = std::make_shared<Made>();
      const Communicator group = between_hosts(world, made);
      const TokenRows rows = TokenRows::zigzag({9, 5}, group.size());
      const auto qkv = own_qkv(rows, {}, world);
      for (int step = 0; step < 3; ++step) {
        attention(qkv[0], qkv[1], qkv[2], rows, group, {.method = method, .causal = true}).sum().backward();
        const int of_rings = method == Method::ring ? 1 : 0;
        EXPECT_EQ(*made, std::pair(of_rings, of_rings)) << method_name(method) << " in step " << step;
      }
    }
  });
}

TEST(Attention, goes_through_masks_and_dropout_in_blocks) {
  // More tokens than a block, and for later queries none in the first block of keys.
  const AttentionMask far = [](int64_t, Range queries, Range keys) {
    const at::Tensor q = at::arange(queries.begin, queries.end).unsqueeze(1), k = at::arange(keys.begin, keys.end);
    return (q >= 600).logical_and(k < 600);
  };
  for_each_world({1, 2}, [&](const Communicator& world) {
    for (const double dropout : {0.0, 0.3})
      for (const bool causal : {false, true})
        expect_attention_of_one_worker(
            world, TokenRows::balanced({1100}, world.size()), {.queries = 1, .keys = 1, .size = 2, .value_size = 2},
            {.causal = causal, .mask = far, .dropout = dropout, .name = "a", .step = {.training = true}}, by_formula);
  });
}

TEST(Attention, takes_heads_however_they_lie_in_memory) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const TokenRows rows = TokenRows::balanced({9}, world.size());
    std::vector<at::Tensor> own;
    for (const at::Tensor& x : whole_qkv(rows.size(), {}, world))
      own.push_back(take_block(x, rows.split(), world.rank()));
    const auto turned = [](const at::Tensor& x) { return x.permute({2, 1, 0}).contiguous().permute({2, 1, 0}); };
    for (const Method method : kMethods) {
      const AttentionOptions options{.method = method};
      EXPECT_TRUE(at::allclose(attention(turned(own[0]), turned(own[1]), turned(own[2]), rows, world, options),
                               attention(own[0], own[1], own[2], rows, world, options), 0, 1e-12))
          << method_name(method);
    }
  });
}

TEST(Attention, of_16_bit_numbers_is_near_that_of_64) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const TokenRows rows = TokenRows::zigzag({40}, world.size());
    std::vector<at::Tensor> own, narrow;
    for (const at::Tensor& x : whole_qkv(rows.size(), {}, world)) {
      narrow.push_back(take_block(x, rows.split(), world.rank()).to(at::kBFloat16).requires_grad_());
      own.push_back(narrow.back().detach().to(at::kDouble).requires_grad_());
    }
    for (const double dropout : {0.0, 0.2}) {
      const AttentionOptions options{.causal = true, .dropout = dropout, .name = "a", .step = {.training = true}};
      const at::Tensor y = attention(narrow[0], narrow[1], narrow[2], rows, world, options);
      const at::Tensor precise = attention(own[0], own[1], own[2], rows, world, options);
      EXPECT_EQ(y.scalar_type(), at::kBFloat16);
      EXPECT_TRUE(at::allclose(y.to(at::kDouble), precise, 0.02, 0.02));
      const auto found = torch::autograd::grad({y.to(at::kDouble).square().sum()}, narrow);
      const auto expected = torch::autograd::grad({precise.square().sum()}, own);
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_TRUE(at::allclose(found[i].to(at::kDouble), expected[i], 0.1, 0.1)) << "qkv"[i];
    }
  });
}

TEST(Attention, is_not_a_number_where_a_query_or_a_key_is_none) {
  for_each_world({1, 2}, [](const Communicator& world) {
    for (const Method method : kMethods) {
      const TokenRows rows = TokenRows::balanced({6}, world.size());
      std::vector<at::Tensor> whole = whole_qkv(rows.size(), {.queries = 2, .keys = 2}, world), own;
      whole[0].select(0, 4).select(0, 1).fill_(std::numeric_limits<double>::quiet_NaN());
      for (const at::Tensor& x : whole) own.push_back(take_block(x, rows.split(), world.rank()));
      const at::Tensor y = attention(own[0], own[1], own[2], rows, world, {.method = method});
      const at::Tensor expected = take_block(whole[0].isnan(), rows.split(), world.rank()).any(-1);
      EXPECT_TRUE(y.isnan().any(-1).equal(expected)) << method_name(method);
      whole[1].select(0, 1).fill_(std::numeric_limits<double>::quiet_NaN());
      own[1] = take_block(whole[1], rows.split(), world.rank());
      EXPECT_TRUE(attention(own[0], own[1], own[2], rows, world, {.method = method}).isnan().all().item<bool>());
    }
  });
}

TEST(Attention, keeps_a_number_that_is_none_in_its_sample) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    for (const Method method : kMethods)
      for (size_t which = 0; which < 3; ++which) {  // q, k or v
        const TokenRows rows = TokenRows::balanced({4, 5, 1}, world.size());
        std::vector<at::Tensor> whole = whole_qkv(rows.size(), {.queries = 2, .keys = 2}, world), own;
        whole[which].select(0, 5).fill_(std::numeric_limits<double>::quiet_NaN());  // of the second sample
        for (const at::Tensor& x : whole)
          own.push_back(take_block(x, rows.split(), world.rank()).clone().requires_grad_());
        const at::Tensor y = attention(own[0], own[1], own[2], rows, world, {.method = method});
        std::vector<at::Tensor> tensors = torch::autograd::grad({y.square().sum()}, own);
        tensors.push_back(y.detach());
        int64_t row = 0;
        for (const adjoin::Run& run : rows.runs(world.rank())) {
          for (const at::Tensor& tensor : tensors) {
            if (run.sample == 1) continue;
            EXPECT_FALSE(tensor.narrow(0, row, run.tokens.size()).isnan().any().item<bool>())
                << method_name(method) << ", "
                << "qkv"[which] << ", sample " << run.sample;
          }
          row += run.tokens.size();
        }
      }
  });
}

TEST(Attention, hides_later_keys_whatever_the_scale_is) {
  for_each_world({1, 3}, [](const Communicator& world) {
    for (const double scale : {0.0, -2.0}) {
      const TokenRows rows = TokenRows::zigzag({7}, world.size());
      const auto of = [&](Method method) {
        std::vector<at::Tensor> own;
        for (const at::Tensor& x : whole_qkv(rows.size(), {}, world))
          own.push_back(take_block(x, rows.split(), world.rank()));
        return attention(own[0], own[1], own[2], rows, world, {.method = method, .scale = scale, .causal = true});
      };
      EXPECT_TRUE(at::allclose(of(Method::ring), of(Method::gathered), 0, 1e-12)) << scale;
      EXPECT_TRUE(at::allclose(of(Method::ulysses), of(Method::gathered), 0, 1e-12)) << scale;
    }
  });
}

}  // namespace
}  // namespace adjoin::nn
