#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/check_gradients.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::testing {

using Known = std::vector<KnownTensor>;

inline at::Tensor weight(at::IntArrayRef shape) {
  return at::full(shape, 0.5, at::kDouble).requires_grad_(true);
}

/// A world as the one axis of a grid, and a parameter of each kind along it.
struct Line {
  explicit Line(const Communicator& w)
      : world(w), grid(w, {{"tp", w.size()}}), split(Split::balanced(12, w.size(), 0)) {}

  KnownTensor known(const char* name, const at::Tensor& tensor, Kind kind) const {
    return {name, tensor, std::map<std::string, Kind>{{"tp", kind}}};
  }
  Known parameters() const {
    return {known("whole", whole, Kind::replicated), known("copy", copy, Kind::copied),
            known("part", part, Kind::split)};
  }
  std::string error(const at::Tensor& loss, const Known& inputs = {}) const {
    return thrown_by<InvalidArgument>([&] { check_gradients(loss, parameters(), inputs, grid); });
  }

  Communicator world;
  Grid grid;
  Split split;
  at::Tensor whole = weight({12, 12}), copy = weight({12, 12}), part = weight({12, 12});
};

inline constexpr const char* kNothing = "nothing was thrown";

inline void for_each_line(const std::function<void(const Line&)>& fn) {
  for_each_world({2, 3}, [&](const Communicator& world) { fn(Line(world)); });
}

}  // namespace adjoin::testing
