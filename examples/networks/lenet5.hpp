#pragma once

#include <ATen/ATen.h>

#include "adjoin/nn/distributed/conv.hpp"
#include "adjoin/nn/distributed/linear.hpp"
#include "adjoin/nn/distributed/pool.hpp"
#include "adjoin/nn/distributed/sequential.hpp"
#include "examples/support/example.hpp"

/// The network of lenet5.cpp: pictures of 28 x 28 cut over space, then features over rows and columns.
namespace adjoin::example {

struct Grids {
  explicit Grids(const Communicator& world) : space(shaped(world, "y", "x")), features(shaped(world, "out", "in")) {}
  static Grid shaped(const Communicator& world, const char* rows, const char* columns) {
    const auto [height, width] = nearly_square(world.size());
    return Grid(world, {{rows, height}, {columns, width}});
  }
  Grid space, features;
};

inline nn::Sequential lenet5(const Grids& on, at::ScalarType type) {
  const auto conv = [&](int64_t in, int64_t out, int64_t padding) {
    const Layout weight = nn::layout_copied_on(on.space.shape(), {out, in, 5, 5});
    return nn::Conv2d(nn::Conv2dOptions(in, out, 5).padding(padding), nn::LayerLayouts{weight, {}, type}, on.space);
  };
  const auto linear = [&](int64_t in, int64_t out) {
    const Layout weight = nn::balanced_over(on.features.shape(), {{"out"}, {"in"}})({out, in});
    return nn::Linear(nn::LinearOptions(in, out), nn::LayerLayouts{weight, {}, type}, on.features);
  };
  const nn::Elementwise relu(at::relu);
  const nn::MaxPool2d pool(nn::MaxPool2dOptions(2), on.space);
  return nn::Sequential(conv(1, 6, 2), relu, pool,                    // [batch, 6, 14, 14], cut over space
                        conv(6, 16, 0), relu, pool,                   // [batch, 16, 5, 5]
                        nn::Flatten(nn::FlattenOptions(), on.space),  // [batch, 400], cut over features
                        linear(400, 120), relu, linear(120, 84), relu, linear(84, 10));  // their weights over both
}

}  // namespace adjoin::example
