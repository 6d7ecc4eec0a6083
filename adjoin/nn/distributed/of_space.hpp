#pragma once

#include <torch/nn/pimpl.h>

// Layers that torch::nn has for one, two and three dims of space.

/// Their options: name1dOptions, name2dOptions and name3dOptions.
#define ADJOIN_OPTIONS_OF_SPACE(name) \
  using torch::nn::name##1dOptions;   \
  using torch::nn::name##2dOptions;   \
  using torch::nn::name##3dOptions

/// name1d, name2d and name3d, each of them Layer<options, dims of space>.
#define ADJOIN_LAYERS_OF_SPACE(name, Layer)       \
  using name##1dImpl = Layer<name##1dOptions, 1>; \
  using name##2dImpl = Layer<name##2dOptions, 2>; \
  using name##3dImpl = Layer<name##3dOptions, 3>; \
  TORCH_MODULE(name##1d);                         \
  TORCH_MODULE(name##2d);                         \
  TORCH_MODULE(name##3d)
