#include <algorithm>
#include <memory>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/layout_picture.hpp"
#include "adjoin/cli/layout_report.hpp"
#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/store/output_file.hpp"

namespace adjoin::cli {
namespace {

constexpr int64_t kMostSize = int64_t{1} << 40, kMostElements = int64_t{1} << 50;
constexpr int64_t kMostOfWindow = 1 << 20, kMostBoxes = 1 << 20;
constexpr size_t kMostDims = 8;

struct LayoutOptions {
  std::string shape, grid, to_grid, kind, to_kind, window, stride, dilation, padding, padding_mode, svg;
  bool ceil_mode = false, transposed = false, json = false;
};

std::vector<int64_t> shape_of(const LayoutOptions& options) {
  require_given(options.shape, "--shape");
  const std::vector<int64_t> shape = numbers_by_dim(options.shape, "--shape", 0, kMostSize);
  require(shape.size() <= kMostDims, [&] {
    return "--shape has " + std::to_string(shape.size()) + " dims, expected at most " + std::to_string(kMostDims);
  });
  int64_t elements = 1;
  for (const int64_t size : shape) {
    require(size == 0 || elements <= kMostElements / size, [&] {
      return "--shape is " + options.shape + ", expected at most " + std::to_string(kMostElements) + " elements";
    });
    elements *= size;
  }
  return shape;
}

Kind kind_of(const std::string& text, const char* option) {
  constexpr std::string_view kNames[] = {"replicated", "copied", "partial"};
  constexpr Kind kKinds[] = {Kind::replicated, Kind::copied, Kind::partial};
  return kKinds[check_choice(option, text, kNames)];
}

/// Axis i of the grid cuts dim i into balanced parts; axes beyond the dims have the given kind.
Layout layout_of(const std::vector<int64_t>& shape, const std::string& grid, const char* grid_option,
                 const std::string& kind, const char* kind_option) {
  std::vector<int> sizes;
  int64_t ranks = 1;
  for (const int64_t size : numbers_by_dim(grid, grid_option, 1, kMostThreads)) {
    sizes.push_back(static_cast<int>(size));
    ranks *= size;
    require(ranks <= kMostThreads, [&] {
      return std::string(grid_option) + " is " + grid + ", expected at most " + std::to_string(kMostThreads) + " ranks";
    });
  }
  require(sizes.size() >= shape.size(), [&] {
    return std::string(grid_option) + " is " + grid + ", expected a number for each of the " +
           std::to_string(shape.size()) + " dims";
  });
  require(kind.empty() || sizes.size() > shape.size(), [&] {
    return std::string(kind_option) + ": every axis of " + grid_option + " " + grid + " cuts a dim; name one more";
  });
  std::vector<Layout::Cut> cuts;
  std::map<std::string, Kind> kinds;
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (axis < shape.size())
      cuts.push_back({Split::balanced(shape[axis], sizes[axis], static_cast<int64_t>(axis)), {std::to_string(axis)}});
    else if (!kind.empty())
      kinds.emplace(std::to_string(axis), kind_of(kind, kind_option));
  return Layout(GridShape::positional(sizes), shape, std::move(cuts), std::move(kinds));
}

/// One number for each dim; a single number is for all dims.
std::vector<int64_t> of_each_dim(const std::string& text, const char* option, int64_t least, size_t dims) {
  if (text.empty()) return std::vector<int64_t>(dims, least);
  std::vector<int64_t> numbers = numbers_by_dim(text, option, least, kMostOfWindow);
  if (numbers.size() == 1) numbers.resize(dims, numbers[0]);
  require(numbers.size() == dims, [&] {
    return std::string(option) + " is " + text + ", expected one number, or one for each of the " +
           std::to_string(dims) + " dims";
  });
  return numbers;
}

Padding padding_of(const std::string& mode) {
  constexpr std::string_view kModes[] = {"zeros", "replicate", "reflect", "circular"};  // in the order of Padding
  return mode.empty() ? Padding::zeros : static_cast<Padding>(check_choice("--padding-mode", mode, kModes));
}

/// Adds the inputs that the windows of every part need, and the outputs that they compute.
void add_windows(const LayoutOptions& options, ShownMove& placement) {
  const size_t dims = placement.from.shape().size();
  const std::vector<int64_t> kernel = of_each_dim(options.window, "--window", 1, dims),
                             stride = of_each_dim(options.stride, "--stride", 1, dims),
                             dilation = of_each_dim(options.dilation, "--dilation", 1, dims),
                             padding = of_each_dim(options.padding, "--padding", 0, dims);
  std::vector<Window> windows;
  for (size_t dim = 0; dim < dims; ++dim)
    windows.push_back({.kernel = kernel[dim],
                       .stride = stride[dim],
                       .dilation = dilation[dim],
                       .before = padding[dim],
                       .after = padding[dim],
                       .ceil_mode = options.ceil_mode,
                       .transposed = options.transposed});
  std::string text =
      joined(kernel, " x ") + (options.transposed ? ", transposed" : "") + ", stride " + joined(stride, " x ");
  if (!options.dilation.empty()) text += ", dilation " + joined(dilation, " x ");
  text +=
      ", padding " + joined(padding, " x ") + (options.padding_mode.empty() ? "" : " (" + options.padding_mode + ")");
  placement.windows =
      Windows{text, options.transposed, plan_halo(placement.from, windows, padding_of(options.padding_mode))};
  placement.to = placement.windows->plan.fetched;
}

/// Checks that the output is not too long. Its numbers then fit: r ranks fetch little more than r times all 2^50 elements, in
/// boxes of at most 2^50 / r, so 2^20 boxes have hardly more than 2^60.
void check_size(const Layout& from, const Layout& to) {
  double boxes = to.grid().cells();
  for (int64_t dim = 0; dim < from.dims(); ++dim) {
    const Split& wanted = to.split(dim);
    boxes *= static_cast<double>(overlaps(from.split(dim), wanted).size()) / wanted.parts();
  }
  require(boxes <= kMostBoxes, [&] {
    return "expected a move of at most " + std::to_string(kMostBoxes) + " boxes, this has about " +
           std::to_string(static_cast<int64_t>(std::min(boxes, 1e18)));
  });
}

void check_combination(const LayoutOptions& options) {
  const auto needs = [](const std::string& value, const char* option, const std::string& other, const char* needed) {
    require(value.empty() || !other.empty(), [&] { return std::string(option) + " has no effect without " + needed; });
  };
  require(options.to_grid.empty() || options.window.empty(), "--to-grid and --window are two moves; give one");
  needs(options.to_kind, "--to-kind", options.to_grid, "--to-grid");
  needs(options.stride, "--stride", options.window, "--window");
  needs(options.dilation, "--dilation", options.window, "--window");
  needs(options.padding, "--padding", options.window, "--window");
  needs(options.padding_mode, "--padding-mode", options.window, "--window");
  needs(options.ceil_mode ? "given" : "", "--ceil-mode", options.window, "--window");
  needs(options.transposed ? "given" : "", "--transposed", options.window, "--window");
}

void run_layout(const LayoutOptions& options) {
  check_combination(options);
  const std::vector<int64_t> shape = shape_of(options);
  require_given(options.grid, "--grid");
  ShownMove placement{layout_of(shape, options.grid, "--grid", options.kind, "--kind"), {}, {}};
  if (!options.to_grid.empty())
    placement.to = layout_of(shape, options.to_grid, "--to-grid", options.to_kind, "--to-kind");
  if (!options.window.empty()) add_windows(options, placement);
  if (placement.to) {
    check_move(placement.from, *placement.to);
    check_size(placement.from, *placement.to);
  }
  const std::string picture = options.svg.empty() ? "" : picture_of(placement);
  if (!prints()) return;  // in an MPI job only rank 0 prints
  if (!options.svg.empty()) train::write_atomically(options.svg, picture);
  report_of(placement, options.json).print();
}

}  // namespace

void add_layout(Program& program) {
  auto options = std::make_shared<LayoutOptions>();
  add_command(
      program, program.app, "layout",
      "Show which part of a tensor each rank holds, and what each receives by a move or for windows",
      [options] { run_layout(*options); },
      {text("--shape", options->shape, "SIZES", "The tensor's sizes, as in 4x4x3"),
       text("--grid", options->grid, "SIZES",
            "Ranks along each dim, as in 1x2x2: each dim is cut into balanced parts; sizes beyond the dims' are axes "
            "that cut nothing"),
       text("--kind", options->kind, "KIND",
            "What the tensor is along axes that cut nothing: replicated, copied or partial [replicated]"),
       text("--to-grid", options->to_grid, "SIZES", "Show what a move to this grid sends"),
       text("--to-kind", options->to_kind, "KIND", "As --kind, for the grid that it is moved to [replicated]"),
       text("--window", options->window, "SIZES",
            "Show what each rank fetches for windows of this kernel: a number for all dims, or one a dim as in 1x3x3"),
       text("--stride", options->stride, "SIZES", "Of the windows [1]"),
       text("--dilation", options->dilation, "SIZES", "Of the windows [1]"),
       text("--padding", options->padding, "SIZES", "At both ends of each dim [0]"),
       text("--padding-mode", options->padding_mode, "MODE", "zeros, replicate, reflect or circular [zeros]"),
       flag("--ceil-mode", options->ceil_mode, "The last window may extend beyond the padded tensor"),
       flag("--transposed", options->transposed, "The windows are those of a transposed convolution"),
       file("--svg", options->svg, "Draw it: each rank's part in a colour, what comes from another rank with an arrow"),
       json_row(options->json,
                "object: from and to (layout, ranks), move (boxes, elements, bytes, staying, transfers), "
                "windows (outputs, dims)")});
}

}  // namespace adjoin::cli
