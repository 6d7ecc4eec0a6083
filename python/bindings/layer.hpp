#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/movement/distributed_tensor.hpp"
#include "adjoin/nn/parameter.hpp"

namespace adjoin::python {

/// A layer of nn/distributed as a module of Python's torch.nn holds it, which has the tensors.
class Layer {
 public:
  using Forward = std::function<DistributedTensor(const DistributedTensor&)>;
  using Loss = std::function<DistributedTensor(const DistributedTensor&, const DistributedTensor&)>;

  Layer(std::shared_ptr<torch::nn::Module> module, Forward forward, Loss loss = {})
      : module_(std::move(module)), forward_(std::move(forward)), loss_(std::move(loss)) {
    for (const nn::Parameter& piece : nn::parameters_of(*module_)) {
      names_.push_back(piece.name);
      tensors_.push_back(piece.tensor);
    }
  }

  /// `tensors` are those that Python has in the places of the pieces now.
  DistributedTensor forward(const DistributedTensor& x, const std::vector<at::Tensor>& tensors, bool training);
  DistributedTensor loss(const DistributedTensor& x, const DistributedTensor& target) { return loss_(x, target); }
  std::vector<nn::Parameter> pieces() const { return nn::parameters_of(*module_); }

 private:
  std::shared_ptr<torch::nn::Module> module_;
  Forward forward_;
  Loss loss_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> tensors_;
};

template <class Module>
Layer layer_of(std::shared_ptr<Module> module) {
  return Layer(module, [module](const DistributedTensor& x) { return module->forward(x); });
}

}  // namespace adjoin::python
