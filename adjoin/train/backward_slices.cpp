#include "adjoin/train/backward_slices.hpp"

#include <torch/csrc/autograd/engine.h>

namespace adjoin::train {

void BackwardSlices::note(const at::Tensor& output, std::string_view name) {
  if (!output.requires_grad()) return;
  output.register_hook([self = shared_from_this(), name](const at::Tensor&) { self->begin(name); });
}

void BackwardSlices::begin(std::string_view name) {
  if (!open_)
    torch::autograd::Engine::get_default_engine().queue_callback([self = shared_from_this()] { self->open_.reset(); });
  open_.reset();
  open_.emplace(name);
}

}  // namespace adjoin::train
