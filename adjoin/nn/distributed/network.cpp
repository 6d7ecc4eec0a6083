#include "adjoin/nn/distributed/network.hpp"

#include <torch/csrc/autograd/cpp_hook.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <typeinfo>

#include "adjoin/base/error.hpp"
#include "adjoin/linalg/agreement.hpp"
#include "adjoin/nn/distributed/twin.hpp"
#include "adjoin/nn/state.hpp"

namespace adjoin::nn {
namespace {

using torch::nn::AnyModule;

/// Whether something else than autograd's own sums is done with the gradient of a parameter.
bool has_hook(const at::Tensor& parameter) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(parameter);
  if (meta == nullptr) return false;
  const bool has_own = meta->cpp_hooks_list_ && std::ranges::any_of(*meta->cpp_hooks_list_, [](const auto& hook) {
                         return static_cast<bool>(hook);  // one that was removed is empty
                       });
  return has_own || meta->post_acc_grad_hooks_ != nullptr;
}

/// The twins of a model's layers, each made once.
class Twins {
 public:
  explicit Twins(const NetworkPlacement& placement) : placement_(placement) {}

  /// `place`: the sequence's place in the network, "" or "1"
  Sequential of_sequence(const torch::nn::SequentialImpl& sequence, const std::string& place) {
    check_sequence(sequence, place);
    const std::string prefix = place.empty() ? "" : place + ".";
    Sequential result;
    result->train(sequence.is_training());  // before it has children, as they have their own modes
    for (const auto& child : sequence.named_children()) {
      require(child.value() != nullptr, [&] { return "distributed: layer '" + prefix + child.key() + "' is null"; });
      result->push_back(child.key(), of(*child.value(), prefix + child.key()));
    }
    return result;
  }

 private:
  AnyModule of(const torch::nn::Module& layer, const std::string& place) {
    const auto known = known_.find(&layer);
    if (known != known_.end()) return known->second;
    return known_.emplace(&layer, made(layer, place)).first->second;
  }

  AnyModule made(const torch::nn::Module& layer, const std::string& place) {
    if (const auto* sequence = dynamic_cast<const torch::nn::SequentialImpl*>(&layer))
      return AnyModule(of_sequence(*sequence, place));
    try {
      check_hooks(layer);
      if (auto twin = twin_of(layer, placement_, place)) {
        twin->ptr()->train(layer.is_training());
        return *twin;
      }
    } catch (const InvalidArgument& error) {
      throw InvalidArgument("distributed: layer '" + place + "': " + error.what());
    }
    throw InvalidArgument("distributed: layer '" + place + "' is a " + layer.name() +
                          ", which has no distributed twin");
  }

  /// Another class derived from Sequential may do something else with its layers, so it is refused.
  static void check_sequence(const torch::nn::SequentialImpl& sequence, const std::string& place) {
    const std::string what = place.empty() ? "the model" : "layer '" + place + "'";
    require(typeid(sequence) == typeid(torch::nn::SequentialImpl) || typeid(sequence) == typeid(InnerSequentialImpl),
            [&] {
              return "distributed: " + what + " is a " + sequence.name() +
                     ", whose forward may be its own; expected a torch::nn::Sequential, or within another an "
                     "adjoin::nn::InnerSequential";
            });
    const bool is_plain = sequence.named_children().size() == sequence.size() &&
                          sequence.named_parameters(/*recurse=*/false).is_empty() &&
                          sequence.named_buffers(/*recurse=*/false).is_empty();
    require(is_plain, [&] { return "distributed: " + what + " holds more than a sequence of layers"; });
  }

  static void check_hooks(const torch::nn::Module& layer) {
    for (const auto& parameter : layer.named_parameters())
      require(!has_hook(parameter.value()), [&] {
        return "'" + parameter.key() + "' has a hook, which its pieces would not call; register it after distributed";
      });
  }

  const NetworkPlacement& placement_;
  std::map<const torch::nn::Module*, AnyModule> known_;
};

/// The layers with their options and modes, and which parameters require gradients or have hooks.
std::string text_of(const torch::nn::SequentialImpl& model) {
  std::ostringstream text;
  for (const auto& layer : model.named_modules("", /*include_self=*/false)) {
    if (!layer.value()->children().empty()) {
      text << layer.key() << " " << layer.value()->name() << " of " << layer.value()->children().size() << " and "
           << layer.value()->parameters(/*recurse=*/false).size() << "; ";
      continue;
    }
    layer.value()->pretty_print(text << layer.key() << " ");
    text << (layer.value()->is_training() ? " in training" : "");
    for (const at::Tensor& parameter : layer.value()->parameters())
      text << (parameter.requires_grad() ? " +" : " -") << (has_hook(parameter) ? " with a hook" : "");
    text << "; ";
  }
  return text.str();
}

/// The parameters and buffers of a module, each once, under its first name.
State state_of(const torch::nn::Module& module) {
  State state;
  std::set<const void*> known;
  const auto add = [&](const auto& items) {
    for (const auto& item : items)
      if (known.insert(item.value().unsafeGetTensorImpl()).second) state.emplace(item.key(), item.value());
  };
  add(module.named_parameters());
  add(module.named_buffers());
  return state;
}

}  // namespace

Layout NetworkPlacement::of_space(const std::vector<int64_t>& shape, size_t space_dims) const {
  require(shape.size() == space_dims + 1 || shape.size() == space_dims + 2, [&] {
    return "expected [batch, channels, *space] with " + std::to_string(space_dims) +
           " dims of space, or the same without the batch, got " + shape_text(shape);
  });
  std::vector<std::vector<std::string>> axes;
  if (shape.size() == space_dims + 2) axes.push_back(batch);
  axes.push_back(channels);
  for (size_t dim = 0; dim < space_dims && dim < space.size(); ++dim) axes.push_back(space[dim]);
  return balanced_over(grid.shape(), std::move(axes))(shape);
}

Layout NetworkPlacement::of_features(const std::vector<int64_t>& shape) const {
  require(!shape.empty(), "expected [batch, *, features], got a number without dims");
  std::vector<std::vector<std::string>> axes(shape.size());
  if (shape.size() > 1) axes.front() = batch;
  axes.back() = feature_axes();
  return balanced_over(grid.shape(), std::move(axes))(shape);
}

std::vector<std::string> NetworkPlacement::feature_axes() const {
  std::vector<std::string> axes = channels;
  for (const auto& of_dim : space) axes.insert(axes.end(), of_dim.begin(), of_dim.end());
  return axes;
}

void NetworkPlacement::check_axes() const {
  std::vector<std::string> axes = feature_axes();
  axes.insert(axes.begin(), batch.begin(), batch.end());
  std::set<std::string> named;
  for (const std::string& axis : axes) {
    grid.shape().axis_index(axis);  // throws if there is no such axis
    require(named.insert(axis).second, [&] {
      return "distributed: axis '" + axis +
             "' is named twice, expected it to cut only one of batch, channels and space";
    });
  }
}

Sequential distributed(const torch::nn::SequentialImpl& model, const NetworkPlacement& placement) {
  placement.check_axes();
  linalg::check_agreement("distributed", text_of(model), placement.grid.world());
  Sequential net = Twins(placement).of_sequence(model, "");
  const State state = state_of(model);
  const std::vector<Parameter> parameters = parameters_of(*net);
  for (const Parameter& p : parameters)
    if (!p.is_buffer) p.tensor.set_requires_grad(state.at(p.name).requires_grad());
  scatter_state(state, parameters);
  return net;
}

}  // namespace adjoin::nn
