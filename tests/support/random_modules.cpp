#include "tests/support/random_modules.hpp"

#include <ATen/ATen.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <utility>

#include "tests/support/waves.hpp"

namespace adjoin::testing {

namespace nn = torch::nn;
using at::Tensor;

/// Draws the operations of a module. Each takes and makes a tensor [samples, tokens, features].
class ModuleMaker {
 public:
  ModuleMaker(RandomModule& module, uint64_t seed) : module_(module), numbers_(seed) {
    table_ = module_.register_module("table", nn::Embedding(kWords, kFeatures));
    const int64_t count = numbers_.from(2, 7);
    for (int64_t i = 0; i < count; ++i) add();
    add_loss();
    fill_with_waves(module_);
    for (const auto& item : module_.named_parameters())
      if (numbers_.one_in(6)) item.value().set_requires_grad(false);
  }

 private:
  using Step = RandomModule::Step;
  static constexpr int64_t kSamples = RandomModule::kSamples, kTokens = RandomModule::kTokens,
                           kFeatures = RandomModule::kFeatures, kWords = RandomModule::kWords;

  void add() {
    const auto values = static_cast<int64_t>(module_.steps_.size()) + 1;  // and the input
    std::pair<size_t, size_t> reads{numbers_.from(std::max<int64_t>(0, values - 2), values - 1),
                                    numbers_.from(0, values - 1)};
    name_.clear();
    Step step = !used_.empty() && numbers_.one_in(6) ? again() : drawn();
    module_.text_ += name_ + " of " + std::to_string(reads.first) + ", " + std::to_string(reads.second) + "\n";
    module_.steps_.push_back(std::move(step));
    module_.reads_.push_back(reads);
  }

  /// A step with the weights of one before it.
  Step again() {
    const auto& [name, step] = used_[static_cast<size_t>(numbers_.from(0, static_cast<int64_t>(used_.size()) - 1))];
    name_ = name + " again";
    return step;
  }

  Step drawn() {
    static const std::vector<std::pair<const char*, Step (ModuleMaker::*)()>> kAll{
        {"linear", &ModuleMaker::linear},     {"perceptron", &ModuleMaker::perceptron},
        {"norm", &ModuleMaker::norm},         {"attention", &ModuleMaker::attention},
        {"softmax", &ModuleMaker::softmax},   {"sum", &ModuleMaker::sum},
        {"views", &ModuleMaker::views},       {"parts", &ModuleMaker::parts},
        {"selected", &ModuleMaker::selected}, {"reduced", &ModuleMaker::reduced},
        {"scaled", &ModuleMaker::scaled},     {"in place", &ModuleMaker::in_place},
        {"written", &ModuleMaker::written},   {"looked up", &ModuleMaker::looked_up},
        {"tied", &ModuleMaker::tied},         {"products", &ModuleMaker::products},
        {"ordered", &ModuleMaker::ordered},   {"indexed", &ModuleMaker::indexed},
        {"chosen", &ModuleMaker::chosen},     {"detached", &ModuleMaker::detached}};
    const auto& [name, make] = kAll[static_cast<size_t>(numbers_.from(0, static_cast<int64_t>(kAll.size()) - 1))];
    const size_t weights = module_.parameters().size();
    name_ = name;
    Step step = (this->*make)();
    if (module_.parameters().size() > weights) used_.emplace_back(name_, step);
    return step;
  }

  int64_t variant(int64_t count) {
    const int64_t drawn = numbers_.from(0, count - 1);
    name_ += " " + std::to_string(drawn);
    return drawn;
  }
  std::string next(const char* name) { return name + std::to_string(count_++); }
  nn::Linear new_linear(int64_t in, int64_t out) {
    return module_.register_module(next("linear"), nn::Linear(nn::LinearOptions(in, out).bias(!numbers_.one_in(3))));
  }
  Tensor new_weight(const std::vector<int64_t>& shape) {
    return module_.register_parameter(next("weight"), at::zeros(shape));
  }

  Step linear() {
    auto layer = new_linear(kFeatures, kFeatures);
    return [layer](const Tensor& x, const Tensor&, const Tensor&) mutable { return layer(x); };
  }
  Step perceptron() {
    const int64_t hidden = std::vector<int64_t>{2, 5, 16}[static_cast<size_t>(variant(3))], kind = variant(3);
    auto up = new_linear(kFeatures, hidden), down = new_linear(hidden, kFeatures);
    return [=](const Tensor& x, const Tensor& other, const Tensor&) mutable {
      Tensor h = up(x);
      h = kind == 0 ? h.tanh_() : kind == 1 ? at::gelu(h) : at::silu(h.view({kSamples * kTokens, -1}));
      Tensor y = down(h).view({kSamples, kTokens, kFeatures});
      y += other;
      return y;
    };
  }
  Step norm() {
    nn::LayerNorm layer = module_.register_module(next("norm"), nn::LayerNorm(nn::LayerNormOptions({kFeatures})));
    return [layer](const Tensor& x, const Tensor&, const Tensor&) mutable { return layer(x); };
  }
  Step attention() {
    module_.is_twice_differentiable_ = false;
    const int64_t heads = std::vector<int64_t>{1, 2, 3, 4, 6}[static_cast<size_t>(variant(5))], kind = variant(3);
    auto qkv = new_linear(kFeatures, 3 * kFeatures), out = new_linear(kFeatures, kFeatures);
    return [=](const Tensor& x, const Tensor& other, const Tensor&) mutable {
      const auto parts = qkv(x).chunk(3, -1);
      const auto by_head = [&](const Tensor& p) {
        return p.view({kSamples, kTokens, heads, kFeatures / heads}).transpose(1, 2);
      };
      const Tensor mask = kind == 2 ? at::ones({kTokens, kTokens}, at::kBool).tril(1) : Tensor();
      const std::optional<Tensor> given = kind == 2 ? std::optional(mask) : std::nullopt;
      const Tensor a = at::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]), given,
                                                        0.0, kind == 1);
      return out(a.transpose(1, 2).contiguous().view({kSamples, kTokens, kFeatures})) + other;
    };
  }
  Step softmax() {
    const int64_t dim = variant(3);
    return [dim](const Tensor& x, const Tensor& other, const Tensor&) {
      return x.softmax(dim) * other + other.log_softmax(dim) * 0.1;
    };
  }
  Step sum() {
    const int64_t kind = variant(4);
    return [kind](const Tensor& x, const Tensor& other, const Tensor&) {
      if (kind == 0) return x + other;
      if (kind == 1) return x * other.tanh();
      if (kind == 2) return at::sub(x, other, 0.5);
      Tensor y = x * 0.5;
      y += other;
      return y;
    };
  }
  Step views() {
    const int64_t kind = variant(6);
    return [kind](const Tensor& x, const Tensor& other, const Tensor&) -> Tensor {
      switch (kind) {
        case 0:
          return (x.reshape({-1, kFeatures}) * 0.9).view({kSamples, -1, kFeatures}) + other;
        case 1:
          return (x.transpose(1, 2).contiguous() * 0.9).view({kSamples, kFeatures, kTokens}).transpose(-1, -2);
        case 2:
          return x.permute({2, 0, 1})
              .reshape({4, 3, -1})
              .tanh()
              .reshape({kFeatures, kSamples, kTokens})
              .permute({1, 2, 0});
        case 3:
          return x.reshape({kSamples, kTokens, 2, 6}).transpose(2, 3).flatten(2) * 0.9;
        case 4:
          return (x.unsqueeze(1).expand({kSamples, 2, kTokens, kFeatures}) * other.unsqueeze(1)).sum(1).squeeze(0);
        default:
          return x.flatten().unflatten(0, {kSamples, kTokens, -1}).sin();
      }
    };
  }
  Step parts() {
    const int64_t kind = variant(5), dim = variant(3);
    return [=](const Tensor& x, const Tensor& other, const Tensor&) -> Tensor {
      const int64_t size = x.size(dim);
      if (kind == 0) {
        const auto p = x.chunk(2, dim);
        return at::cat({p[1].tanh(), p[0]}, dim);
      }
      if (kind == 1) return at::cat({x.slice(dim, 1), other.slice(dim, std::nullopt, 1)}, dim);
      if (kind == 2) {
        const auto p = x.split({1, size - 2, 1}, dim);
        return at::cat({p[0], p[1] * p[2], p[2] + p[0]}, dim);
      }
      if (kind == 3) return at::stack({x, other}, dim).mean(dim);
      return at::cat({x.slice(dim, 0, size, 2), other.slice(dim, 1, size, 2)}, dim);
    };
  }
  Step selected() {
    const int64_t dim = variant(3), index = numbers_.from(-1, 2);
    return [=](const Tensor& x, const Tensor& other, const Tensor&) {
      return x.select(dim, index).unsqueeze(dim).expand({kSamples, kTokens, kFeatures}) * other + x;
    };
  }
  Step reduced() {
    const int64_t kind = variant(7), dim = variant(3);
    return [=](const Tensor& x, const Tensor& other, const Tensor&) -> Tensor {
      switch (kind) {
        case 0:
          return x - x.mean({dim}, true);
        case 1:
          return x * 0.1 + other.sum({dim}, true) * 0.1;
        case 2:
          return x.amax({dim}, true) - other;
        case 3:
          return x.logsumexp({dim}).unsqueeze(dim) * 0.2 + other;
        case 4:
          return x / (1 + other.norm()) + other.mean();
        case 5:
          return x.var({dim}, false, true) * 0.3 + other;
        default:
          return x * other.mean({1, 0}) + x.sum({1, 2}, true) * 0.05;
      }
    };
  }
  Step scaled() {
    static const std::vector<std::vector<int64_t>> kShapes{
        {kFeatures}, {kTokens, 1}, {1}, {}, {kSamples, 1, kFeatures}};
    const Tensor weight = new_weight(kShapes[static_cast<size_t>(variant(5))]);
    const int64_t kind = variant(3);
    return [=](const Tensor& x, const Tensor& other, const Tensor&) -> Tensor {
      if (kind == 0) return x * (weight + 1);
      if (kind == 1) return at::addcmul(x, other, weight, 0.5);
      return at::lerp(x, other, weight.sigmoid());
    };
  }
  Step in_place() {
    const Tensor weight = new_weight({kFeatures});
    const int64_t kind = variant(3);
    return [=](const Tensor& x, const Tensor& other, const Tensor&) {
      Tensor y = x * 1.1;
      if (kind == 0) y.mul_(weight).add_(other).tanh_();
      if (kind == 1) y.masked_fill_(other > 0.2, 0.5).div_(1.5);
      if (kind == 2) y.copy_(other * weight).sub_(x);
      return y;
    };
  }
  Step written() {
    const Tensor weight = new_weight({1});
    const int64_t kind = variant(4);
    return [=](const Tensor& x, const Tensor& other, const Tensor&) {
      Tensor y = x + 0;
      const Tensor before = y.sin();
      y = y.clone();
      if (kind == 0) y.slice(2, 0, 5).mul_(weight);
      if (kind == 1) y.transpose(0, 1).add_(other.transpose(0, 1));
      if (kind == 2) y.unsqueeze(0).mul_(weight + 1);
      if (kind == 3) y.slice(1, 2).zero_();
      return y + before * 0.3;
    };
  }
  Step looked_up() {
    const int64_t kind = variant(2);
    return [kind, table = table_](const Tensor& x, const Tensor&, const Tensor& ids) mutable {
      return kind == 0 ? x + table(ids) : x * 0.7 + at::embedding(table->weight, (ids + 1).remainder(kWords), 3);
    };
  }
  Step tied() {
    return [table = table_](const Tensor& x, const Tensor& other, const Tensor&) {
      return at::matmul(at::linear(x, table->weight).softmax(-1), table->weight) + other;
    };
  }
  Step products() {
    const int64_t kind = variant(3);
    return [kind](const Tensor& x, const Tensor& other, const Tensor&) {
      if (kind == 0) return at::matmul(at::matmul(x, other.transpose(1, 2)).softmax(-1), x);
      if (kind == 1) return at::bmm(x, at::einsum("bti,btj->bij", {x, other})) * 0.05;
      return at::matmul(x, x.reshape({-1, kFeatures}).t().mm(other.reshape({-1, kFeatures}))) * 0.02;
    };
  }
  Step ordered() {
    const int64_t kind = variant(4), dim = variant(3);
    return [=](const Tensor& x, const Tensor& other, const Tensor&) {
      if (kind == 0) return x.cumsum(dim) * 0.3;
      if (kind == 1) return x.flip({dim}) + other;
      if (kind == 2) return x.roll({1}, {dim}) * other;
      return at::constant_pad_nd(x, {0, 0, 1, -1}) + other;
    };
  }
  Step indexed() {
    const int64_t kind = variant(3);
    return [kind](const Tensor& x, const Tensor& other, const Tensor& ids) {
      const Tensor order = at::tensor({3, 0, 0, 4, 1}, at::kLong);
      if (kind == 0) return x.index_select(1, order) + other;
      if (kind == 1) return x.index({at::indexing::Slice(), order}) * other;
      return x.gather(1, ids.remainder(kTokens).unsqueeze(-1).expand({kSamples, kTokens, kFeatures})) + other;
    };
  }
  Step chosen() {
    return [](const Tensor& x, const Tensor& other, const Tensor& ids) {
      return at::where((ids > 4).unsqueeze(-1), x, other * 0.5) * (x > 0).to(at::kDouble) + other;
    };
  }
  Step detached() {
    return
        [](const Tensor& x, const Tensor& other, const Tensor&) { return x * other.detach() + other.clamp(-0.8, 0.8); };
  }

  void add_loss() {
    name_ = "loss";
    const int64_t kind = variant(5);
    module_.text_ += name_ + "\n";
    module_.loss_ = [kind, table = table_](const Tensor& x, const Tensor& ids) -> Tensor {
      const Tensor classes = ids.reshape({-1}).roll({-1}, {0});
      if (kind == 0) return at::cross_entropy_loss(at::linear(x, table->weight).reshape({-1, kWords}), classes);
      if (kind == 1)
        return at::cross_entropy_loss(x.reshape({-1, kFeatures}), classes.masked_fill(classes == 3, -100), {},
                                      at::Reduction::Sum, -100, 0.1) *
               0.1;
      if (kind == 2) return at::mse_loss(x, at::ones({kSamples, kTokens, kFeatures}, at::kDouble) * 0.3);
      if (kind == 3) return x.tanh().square().mean() + x.select(1, -1).sin().sum() * 0.1;
      return at::smooth_l1_loss(x.sum(1), x.sin().sum({1}), at::Reduction::Sum) + table->weight.square().mean();
    };
  }

  RandomModule& module_;
  Numbers numbers_;
  nn::Embedding table_{nullptr};
  std::vector<std::pair<std::string, Step>> used_;
  std::string name_;
  int count_ = 0;
};

RandomModule::RandomModule(uint64_t seed) {
  ModuleMaker(*this, seed);
}

Tensor RandomModule::forward(const Tensor& ids, const Tensor& x) {
  std::vector<Tensor> values{x};
  for (size_t i = 0; i < steps_.size(); ++i)
    values.push_back(steps_[i](values[reads_[i].first], values[reads_[i].second], ids));
  return loss_(values.back(), ids);
}

parallel::Cuts random_cuts(uint64_t seed, const RandomModule& module, const GridShape& grid) {
  Numbers numbers(seed);
  const auto some_axes = [&](const std::vector<std::string>& all) {
    std::string text = all[0];
    for (size_t i = 1; i < all.size(); ++i) text += " and " + all[i];
    return text;
  };
  const auto cut = [&](const std::vector<int64_t>& shape) -> std::string {
    std::vector<std::string> axes;
    for (const GridShape::Axis& axis : grid.axes())
      if (!numbers.one_in(3)) axes.push_back(axis.name);
    if (axes.size() == 2 && numbers.one_in(2)) std::swap(axes[0], axes[1]);
    if (axes.empty() || shape.empty()) return "";
    const auto one = [&](const std::vector<std::string>& over, int64_t dim) {
      std::string text = "dim " + std::to_string(dim) + " over " + some_axes(over);
      if (shape[static_cast<size_t>(dim)] % 3 == 0 && numbers.one_in(4)) text += " in 3 parts";
      if (numbers.one_in(3)) text += " by " + std::to_string(numbers.from(2, 4));
      return text;
    };
    const auto dims = static_cast<int64_t>(shape.size());
    const int64_t dim = numbers.from(0, dims - 1);
    if (axes.size() == 2 && dims > 1 && numbers.one_in(2))
      return one({axes[0]}, dim) + ", " + one({axes[1]}, dim == 0 ? 1 : 0);
    return one(axes, dim);
  };
  parallel::Cuts cuts;
  for (const auto& item : module.named_parameters())
    cuts.weights.emplace_back(item.key(), cut(item.value().sizes().vec()));
  cuts.inputs.push_back(cut({RandomModule::kSamples, RandomModule::kTokens}));
  cuts.inputs.push_back(cut({RandomModule::kSamples, RandomModule::kTokens, RandomModule::kFeatures}));
  return cuts;
}

}  // namespace adjoin::testing
