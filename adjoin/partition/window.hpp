#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "adjoin/partition/split.hpp"

namespace adjoin {

/// Which inputs along one dim each output reads: the windows of a convolution or a pooling, or of a transposed one.
///
/// Output y reads the `kernel` inputs stride * y - before + dilation * t, t = 0, 1, …; those outside [0, inputs) are
/// padding. Transposed, input x adds to the outputs stride * x - before + dilation * t instead.
struct Window {
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t before = 0, after = 0;  ///< how many are padded at each end; transposed: how many outputs are cropped there
  bool ceil_mode = false;         ///< a last window may extend beyond the padded inputs, but not begin in `after`
  bool transposed = false;
  int64_t output_padding = 0;  ///< additional outputs at the end of a transposed one

  /// The number of inputs that a window spans.
  int64_t extent() const { return dilation * (kernel - 1) + 1; }
  /// Whether output y reads input y only, as along a dim without windows.
  bool is_pointwise() const { return kernel == 1 && stride == 1 && before == 0 && after == 0 && output_padding == 0; }
};

/// What is beyond the ends of a dim: zeros, the last index again, the indices before it mirrored, or the other end.
enum class Padding : uint8_t { zeros, replicate, reflect, circular };

/// What is beyond each end of a dim, which may differ; circular at one end is circular at both.
struct Edges {
  Edges(Padding both = Padding::zeros) : before(both), after(both) {}  // NOLINT
  Edges(Padding b, Padding a) : before(b), after(a) {}
  bool is_circular() const { return before == Padding::circular; }
  bool has_values() const { return value_before != 0 || value_after != 0; }
  bool operator==(const Edges&) const = default;

  Padding before, after;
  double value_before = 0, value_after = 0;  ///< instead of zeros
};

/// The number of outputs of a dim with `inputs` indices, as LibTorch counts them; an empty dim has none.
/// Throws: InvalidArgument for sizes below 1 (paddings below 0), a kernel that spans more than the padded inputs, a crop that
///         leaves no output, an output padding that is not less than stride or dilation, or options that `transposed` does not
///         allow.
int64_t outputs_of(const Window& window, int64_t inputs);

/// The inputs that a range of outputs reads; [0, 0) for an empty one. The result may begin below 0 and end above `inputs`,
/// where the rest is padding; exactly outputs.size() windows of the same stride fit in it. Transposed: within [0, inputs).
Range inputs_of(const Window& window, int64_t inputs, Range outputs);

/// A part's indices as one range where they are contiguous, an empty range where there are none; nullopt where they are not
/// contiguous.
std::optional<Range> contiguous_range(const Split& split, int part);

/// Whether each part's indices are contiguous, so that windows can run over them.
bool parts_are_ranges(const Split& split);

/// How the outputs are cut where the inputs are cut by `inputs`: into balanced parts. But where there are as many outputs as
/// inputs, and each part is one piece (or the window is pointwise), they are cut like the inputs, so that x + conv(x) needs no
/// movement.
Split outputs_split(const Window& window, const Split& inputs);

/// Zeros to add at both ends of a dim; where negative, how many indices to drop.
struct Pads {
  int64_t left = 0, right = 0;
  bool operator==(const Pads&) const = default;
};

/// `count` places begin, begin + step, … among the fetched elements; step 0 repeats one, -1 mirrors.
struct Places {
  int64_t begin = 0, step = 1, count = 0;
  bool operator==(const Places&) const = default;
};

/// What each part of a dim fetches, and then does with it, so that windows without padding give exactly its outputs.
struct Halo {
  Split fetched;  ///< a covering split of the inputs, on the dim of the outputs
  /// For each part: what to add to its inputs; transposed: what to add to its outputs or to drop from them.
  std::vector<Pads> pads;
  /// For each part: the places of its inputs among the fetched elements, in order; empty: as fetched. Edges that are replicated
  /// or reflected are fetched once and used repeatedly, and so is what a circular dim repeats of the part's own inputs.
  std::vector<std::vector<Places>> order;
  Edges edges = {};
};

/// The halo of the parts of `outputs`. A part without outputs fetches nothing; a part of a transposed window may fetch nothing
/// although it has outputs, which are then zero. The halo of a pointwise window is the outputs' own split, whatever that is.
/// Cost:   the number of parts, and of the times that a circular padding goes around.
/// Throws: as outputs_of; InvalidArgument where `outputs` has another number of indices or a part in several pieces, where
///         reflect has a padding as large as the inputs or circular a larger one, and for any padding except zeros with
///         ceil_mode or transposed; for a circular end beside one that is not.
Halo halo_of(const Window& window, int64_t inputs, const Split& outputs, const Edges& edges = {});

}  // namespace adjoin
