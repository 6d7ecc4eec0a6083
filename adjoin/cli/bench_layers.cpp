#include "adjoin/train/bench/layers.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/side_by_side.hpp"
#include "adjoin/cli/sizes.hpp"

namespace adjoin::cli {
namespace {

constexpr int64_t kMostOfLayer = int64_t{1} << 32;

struct LayersOptions {
  train::BenchLayersOptions bench;
  SideBySideOptions side_by_side;
  std::string layer = "all";
};

constexpr std::string_view kCuts[] = {"batch", "channels", "height", "width"};

std::vector<std::string> asked_layers(const std::string& asked) {
  const std::vector<std::string>& known = train::bench_layer_names();
  std::vector<std::string_view> names{"all"};
  names.insert(names.end(), known.begin(), known.end());
  return check_choice("--layer", asked, names) == 0 ? known : std::vector{asked};
}

void check(LayersOptions& options) {
  train::BenchLayersOptions& bench = options.bench;
  bench.run = checked_run(options.side_by_side);
  check_product({{"--batch", bench.batch}, {"--channels", bench.channels}}, kMostOfLayer);
  check_range("--size", bench.size, 2, 1 << 16);
  check_range("--rows", bench.rows, 1, kMostOfLayer);
  check_range("--features", bench.features, 1, 1 << 16);
  check_choice("--cut", bench.cut, kCuts);
}

nlohmann::ordered_json row_of(const std::string& layer, const LayersOptions& options, const train::SideBySide& result) {
  nlohmann::ordered_json row = {{"layer", layer}, {"ranks", options.side_by_side.ranks}};
  if (layer != "linear") row["cut"] = options.bench.cut;
  add_measured(row, result);
  return row;
}

void run_layers(LayersOptions& options) {
  const std::vector<std::string> layers = asked_layers(options.layer);
  check(options);
  const std::vector<train::SideBySide> results = train::bench_layers(layers, options.bench);
  if (!prints()) return;
  nlohmann::ordered_json rows;
  for (size_t i = 0; i < layers.size(); ++i)
    options.side_by_side.json ? rows.push_back(row_of(layers[i], options, results[i]))
                              : print_side_by_side(layers[i], results[i]);
  if (options.side_by_side.json) std::printf("%s\n", rows.dump().c_str());
}

}  // namespace

void add_bench_layers(Program& program, CLI::App& bench) {
  auto options = std::make_shared<LayersOptions>();
  options->side_by_side.run.times = 20;
  CLI::App* layers = add_command(program, bench, "layers", "Time distributed layers beside torch::nn's on one worker",
                                 [options] { run_layers(*options); });
  layers
      ->add_option("--layer", options->layer,
                   "A convolution (kernel 3), a pooling, a norm, bilinear upsampling by 2, "
                   "a linear layer, a network of 7 convolutions, 6 norms and 3 poolings, or each of them [all]")
      ->option_text("conv|max-pool|batch-norm|upsample|linear|network|all");
  layers->add_option("--cut", options->bench.cut, "The dim of pictures that is cut over the ranks [height]")
      ->option_text("batch|channels|height|width");
  add_number(*layers, "--batch", options->bench.batch, "Pictures [4]");
  add_number(*layers, "--channels", options->bench.channels, "Channels of a picture [64]");
  add_number(*layers, "--size", options->bench.size, "Height and width of a picture [256]");
  add_number(*layers, "--rows", options->bench.rows, "Rows of the linear layer's input [1024]");
  add_number(*layers, "--features", options->bench.features, "Features of the linear layer, in and out [4096]");
  add_side_by_side(*layers, options->side_by_side, "a JSON list, an object of each layer");
}

}  // namespace adjoin::cli
