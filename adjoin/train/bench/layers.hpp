#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adjoin/train/bench/side_by_side.hpp"

namespace adjoin::train {

/// What `adjoin bench layers` is asked.
struct BenchLayersOptions {
  SideBySideOptions run;
  std::string cut = "height";                    // "batch", "channels", "height" or "width", of pictures
  int64_t batch = 4, channels = 64, size = 256;  // of the pictures, whose height is their width
  int64_t rows = 1024, features = 4096;          // of the linear layer, whose weight is cut by outputs
};

/// The layers that it knows: "conv", "max-pool", "batch-norm", "upsample", "linear", and "network" of many of them.
const std::vector<std::string>& bench_layer_names();

/// Times layers one after another, forward and backward with the sum of their gradients, in float32, beside torch::nn's on
/// one worker.
/// Throws: InvalidArgument for a layer or a cut that is none of those
std::vector<SideBySide> bench_layers(const std::vector<std::string>& layers, const BenchLayersOptions& options);

}  // namespace adjoin::train
