// A U-Net that tells discs from rectangles, pixel by pixel, on pictures that the program draws. Every worker holds a part of
// each picture; edges travel at every resolution, and nothing is ever gathered.

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <png.h>
#include <torch/optim/adam.h>

#include <CLI/App.hpp>
#include <filesystem>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/class_loss.hpp"
#include "adjoin/nn/init.hpp"
#include "adjoin/parallel/gradients.hpp"
#include "adjoin/store/output_file.hpp"
#include "examples/networks/unet.hpp"
#include "examples/support/example.hpp"

using namespace adjoin;

namespace {

// The pictures.
constexpr int64_t kClasses = 3;  // background, disc, rectangle
constexpr int64_t kHeight = 52, kWidth = 44, kBatch = 8, kShapes = 3;
constexpr double kNoise = 0.2;

/// Pictures [n, 1, height, width], and the class of each pixel [n, height, width].
struct Scenes {
  at::Tensor pictures, classes;
};

/// Discs and rectangles of random brightness, later ones drawn over earlier ones, and noise. The same on every worker.
Scenes draw(int64_t n, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const auto random = [&](double low, double high) {
    return low + (high - low) * at::rand({n, 1, 1}, generator, at::kFloat);
  };
  const at::Tensor y = at::arange(kHeight, at::kFloat).view({1, -1, 1}),
                   x = at::arange(kWidth, at::kFloat).view({1, 1, -1});
  at::Tensor pictures = at::zeros({n, kHeight, kWidth}), classes = at::zeros({n, kHeight, kWidth}, at::kLong);
  for (int64_t i = 0; i < kShapes; ++i) {
    const at::Tensor down = y - random(0, kHeight), right = x - random(0, kWidth);
    const at::Tensor is_disc = random(0, 1) < 0.5, radius = random(5, 10);
    const at::Tensor in_disc = down.square() + right.square() < radius.square();
    const at::Tensor in_rectangle = (down.abs() < radius).logical_and(right.abs() < random(5, 10));
    const at::Tensor inside = at::where(is_disc, in_disc, in_rectangle);
    pictures = at::where(inside, random(0.5, 1), pictures);
    classes = at::where(inside, at::where(is_disc, 1, 2), classes);
  }
  pictures += kNoise * at::randn(pictures.sizes(), generator, at::kFloat);
  return {pictures.unsqueeze(1), classes};
}

// The picture of pictures.
constexpr int64_t kShown = 4, kZoom = 3;

at::Tensor in_colours(const at::Tensor& classes) {
  const at::Tensor colours = at::tensor({30, 30, 40, 240, 150, 50, 60, 150, 240}, at::kByte).view({kClasses, 3});
  return colours.index_select(0, classes.flatten()).view({kHeight, kWidth, 3});
}

/// Input, truth and prediction of each scene side by side, [height, width, 3].
at::Tensor side_by_side(const Scenes& scenes, const at::Tensor& predicted) {
  std::vector<at::Tensor> rows;
  for (int64_t i = 0; i < scenes.classes.size(0); ++i) {
    const at::Tensor grey = (scenes.pictures[i][0].clamp(0, 1) * 255).to(at::kByte).unsqueeze(-1).expand({-1, -1, 3});
    rows.push_back(at::cat({grey, in_colours(scenes.classes[i]), in_colours(predicted[i])}, 1));
  }
  return at::cat(rows, 0).repeat_interleave(kZoom, 0).repeat_interleave(kZoom, 1).contiguous();
}

std::string png_of(const at::Tensor& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(pixels.size(0));
  image.width = static_cast<png_uint_32>(pixels.size(1));
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  const auto encode = [&](void* to) {
    if (png_image_write_to_memory(&image, to, &size, 0, pixels.const_data_ptr<uint8_t>(), 0, nullptr) == 0)
      throw Error(std::string("libpng: ") + image.message);
  };
  encode(nullptr);  // finds out how many bytes it takes
  std::string bytes(size, '\0');
  encode(bytes.data());
  return bytes;
}

/// Checks before the training whether the file can be made; what is not a regular file, such as a pipe, is not opened yet.
/// Throws: IoError
void check_place(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_other(path, none)) const train::AtomicFile there(path);
}

// The training.
constexpr double kRate = 0.01;

struct Wishes {
  int64_t steps = 250;
  std::string png = "unet.png";
};

void learn_shapes(const Communicator& world, const Wishes& wishes, example::Report& report) {
  const auto [height, width] = example::nearly_square(world.size());
  const nn::NetworkPlacement on{.grid = Grid(world, {{"y", height}, {"x", width}}), .space = {{"y"}, {"x"}}};
  const auto cut = [&](const at::Tensor& pictures) {
    return place(pictures, on.of_space(pictures.sizes().vec(), 2), on.grid);
  };
  const Layout classes_layout = nn::balanced_over(on.grid.shape(), {{}, {"y"}, {"x"}})({kBatch, kHeight, kWidth});

  const bool draws = world.rank() == 0 && !wishes.png.empty();
  if (draws) check_place(wishes.png);
  example::UNet net(on, kClasses);
  for (const nn::Parameter& parameter : nn::parameters_of(*net))
    if (parameter.layout.dims() > 1) nn::init::kaiming_normal_(parameter, /*seed=*/1);
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(kRate));
  nn::CrossEntropyLoss loss(on.grid);
  std::vector<double> losses;
  for (int64_t step = 0; step < wishes.steps; ++step) {
    const Scenes scenes = draw(kBatch, static_cast<uint64_t>(step) + 1);
    const auto rest = static_cast<double>(wishes.steps - step) / static_cast<double>(wishes.steps);
    optimizer.param_groups()[0].options().set_lr(kRate * rest);  // falls to 0
    optimizer.zero_grad();
    const DistributedTensor misfit = loss(net(cut(scenes.pictures)), place(scenes.classes, classes_layout, on.grid));
    misfit.local.sum().backward();
    parallel::sum_gradients(*net);
    optimizer.step();
    losses.push_back(misfit.local.item<double>());
    if (step % 10 == 0) report.line("step %3ld  loss %.4f", static_cast<long>(step), losses.back());
  }

  const at::NoGradGuard no_gradient;
  net->eval();
  const Scenes test = draw(8 * kShown, /*seed=*/0);
  const at::Tensor predicted = whole(net(cut(test.pictures))).argmax(1);
  const double right = predicted.eq(test.classes).to(at::kDouble).mean().item<double>();
  report.line("%.2f %% of the pixels of other pictures are right, %.2f %% are background", 100 * right,
              100 * test.classes.eq(0).to(at::kDouble).mean().item<double>());
  report.value("pixel_accuracy", right);
  report.value("losses", losses);
  if (!draws) return;
  const auto first = [](const at::Tensor& x) { return x.slice(0, 0, kShown); };
  train::write_atomically(wishes.png,
                          png_of(side_by_side({first(test.pictures), first(test.classes)}, first(predicted))));
  report.line("%s shows input, truth and prediction", wishes.png.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  Wishes wishes;
  const auto add_options = [&](CLI::App& app) {
    example::add_steps(app, wishes.steps, "Steps of training [250]");
    app.add_option("--png", wishes.png, "Where input, truth and prediction are drawn,\n\"\" for nowhere [unet.png]")
        ->option_text("FILE");
  };
  return example::run(argc, argv,
                      {.text = "A U-Net that tells discs from rectangles, cut over space.", .add_options = add_options},
                      [&](const Communicator& world, example::Report& report) { learn_shapes(world, wishes, report); });
}
