#include "adjoin/partition/window.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "adjoin/base/error.hpp"

namespace adjoin {
namespace {

constexpr int64_t kLargest = int64_t{1} << 60;  // so that sums of a few such numbers do not overflow

int64_t floor_of(int64_t a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

int64_t ceil_of(int64_t a, int64_t b) {
  return -floor_of(-a, b);
}

void check_at_least(int64_t least, int64_t value, const char* name) {
  require(value >= least, [&] {
    return "window: expected " + std::string(name) + " of at least " + std::to_string(least) + ", got " +
           std::to_string(value);
  });
}

void check(const Window& window, int64_t inputs) {
  check_at_least(0, inputs, "a number of inputs");
  check_at_least(1, window.kernel, "a kernel");
  check_at_least(1, window.stride, "a stride");
  check_at_least(1, window.dilation, "a dilation");
  check_at_least(0, window.before, "a padding before the inputs");
  check_at_least(0, window.after, "a padding after the inputs");
  check_at_least(0, window.output_padding, "an output padding");
  const int64_t most = std::max({window.stride, window.before, window.after, window.output_padding, inputs});
  require(most <= kLargest && window.kernel - 1 <= kLargest / window.dilation && inputs <= kLargest / window.stride,
          [&] {
            return "window: expected the inputs, the paddings, the span of the kernel, and the inputs times the stride "
                   "to be at most " +
                   std::to_string(kLargest);
          });
  require(window.transposed || window.output_padding == 0, "window: only a transposed window has an output padding");
  require(!window.transposed || !window.ceil_mode, "window: a transposed window has no ceil mode");
  require(window.output_padding < std::max(window.stride, window.dilation) || window.output_padding == 0, [&] {
    return "window: expected an output padding less than stride " + std::to_string(window.stride) + " or dilation " +
           std::to_string(window.dilation) + ", got " + std::to_string(window.output_padding);
  });
}

int64_t transposed_outputs(const Window& window, int64_t inputs) {
  const int64_t outputs = (inputs - 1) * window.stride + window.extent() + window.output_padding;
  const int64_t kept = outputs - window.before - window.after;
  require(kept >= 1, [&] {
    return "window: expected paddings that crop fewer than the " + std::to_string(outputs) + " outputs, got " +
           std::to_string(window.before) + " + " + std::to_string(window.after);
  });
  return kept;
}

const char* name_of(Padding padding) {
  return padding == Padding::reflect ? "reflect" : "circular";
}

void check_end(int64_t most, int64_t got, int64_t inputs, Padding padding) {
  require(got <= most, [&] {
    return "window: expected a " + std::string(name_of(padding)) + " padding of at most " + std::to_string(most) +
           " for " + std::to_string(inputs) + " inputs, got " + std::to_string(got);
  });
}

void check_padding(const Window& window, int64_t inputs, const Edges& edges) {
  if (edges == Edges() || inputs == 0) return;
  require(!window.ceil_mode && !window.transposed,
          "window: a window that is transposed or has ceil mode can be padded with zeros only");
  require((edges.before == Padding::circular) == (edges.after == Padding::circular),
          "window: expected both ends of a dim to be circular, or none");
  for (const auto& [padding, got] : {std::pair(edges.before, window.before), {edges.after, window.after}}) {
    if (padding == Padding::reflect) check_end(inputs - 1, got, inputs, padding);
    if (padding == Padding::circular) check_end(inputs, std::max(window.before, window.after), inputs, padding);
  }
}

/// What one part fetches, and what it then does.
struct Fetch {
  std::vector<Range> ranges;
  Pads pads;
  std::vector<Places> order;
};

Fetch within(Range fetched, Pads pads) {
  return {fetched.size() > 0 ? std::vector{fetched} : std::vector<Range>{}, pads, {}};
}

Fetch with_zeros(Range needed, int64_t inputs) {
  const int64_t left = std::clamp<int64_t>(-needed.begin, 0, needed.size());
  const int64_t right = std::clamp<int64_t>(needed.end - inputs, 0, needed.size());
  return within({needed.begin + left, needed.end - right}, {left, right});
}

/// What lies beyond an end is used again where the part fetches it anyway, and fetched from the other end where it does not.
Fetch wrapped(Range needed, int64_t inputs) {
  const Range inner{std::clamp<int64_t>(needed.begin, 0, inputs), std::clamp<int64_t>(needed.end, 0, inputs)};
  struct Piece {
    Range range;
    bool is_again = false;
  };
  std::vector<Piece> pieces;  // one for each turn around the dim
  Fetch fetch;
  int64_t fetched = 0, inner_at = 0;
  for (int64_t turn = floor_of(needed.begin, inputs) * inputs; turn < needed.end; turn += inputs) {
    const Range range{std::max(needed.begin, turn) - turn, std::min(needed.end, turn + inputs) - turn};
    const bool is_again = turn != 0 && range.begin >= inner.begin && range.end <= inner.end;
    pieces.push_back({range, is_again});
    if (turn == 0) inner_at = fetched;
    if (is_again) continue;
    fetch.ranges.push_back(range);
    fetched += range.size();
  }
  if (fetch.ranges.size() == pieces.size()) return fetch;
  int64_t next = 0;
  for (const auto& [range, is_again] : pieces) {
    fetch.order.push_back({is_again ? inner_at + range.begin - inner.begin : next, 1, range.size()});
    if (!is_again) next += range.size();
  }
  return fetch;
}

/// The index whose value is used for an index beyond the ends, when replicated or reflected.
int64_t source(int64_t index, int64_t inputs, Padding padding) {
  if (padding == Padding::replicate) return std::clamp<int64_t>(index, 0, inputs - 1);
  return index < 0 ? -index : index < inputs ? index : 2 * (inputs - 1) - index;
}

/// Zeros are added first, where an end has them; what is replicated or reflected is then put in its place.
Fetch folded(Range needed, int64_t inputs, const Edges& edges) {
  const Pads beyond{std::clamp<int64_t>(-needed.begin, 0, needed.size()),
                    std::clamp<int64_t>(needed.end - inputs, 0, needed.size())};
  const Pads zeros{edges.before == Padding::zeros ? beyond.left : 0, edges.after == Padding::zeros ? beyond.right : 0};
  if (zeros == beyond) return with_zeros(needed, inputs);
  needed = {needed.begin + zeros.left, needed.end - zeros.right};
  Fetch fetch{{}, zeros, {}};
  Range sources{inputs, 0};
  const auto add = [&](Range indices, Padding padding, int64_t step) {
    if (indices.size() <= 0) return;
    const int64_t first = source(indices.begin, inputs, padding), last = first + step * (indices.size() - 1);
    fetch.order.push_back({first, step, indices.size()});
    sources = {std::min({sources.begin, first, last}), std::max({sources.end, first + 1, last + 1})};
  };
  const auto step = [](Padding padding) { return padding == Padding::reflect ? -1 : 0; };
  add({needed.begin, std::min<int64_t>(needed.end, 0)}, edges.before, step(edges.before));
  add({std::max<int64_t>(needed.begin, 0), std::min(needed.end, inputs)}, Padding::zeros, 1);
  add({std::max(needed.begin, inputs), needed.end}, edges.after, step(edges.after));
  for (Places& places : fetch.order) places.begin += zeros.left - sources.begin;
  if (zeros.left > 0) fetch.order.insert(fetch.order.begin(), {0, 1, zeros.left});
  if (zeros.right > 0) fetch.order.push_back({zeros.left + sources.size(), 1, zeros.right});
  fetch.ranges = {sources};
  return fetch;
}

/// Input x of the fetched ones adds to the outputs from stride * (x - fetched.begin) on, before anything is cropped.
Fetch spread(const Window& window, Range fetched, Range outputs) {
  if (fetched.size() == 0) return {{}, {outputs.size(), 0}, {}};
  const int64_t left = window.stride * fetched.begin - window.before - outputs.begin;
  const int64_t made = (fetched.size() - 1) * window.stride + window.extent();
  return within(fetched, {left, outputs.size() - made - left});
}

Fetch fetch_of(const Window& window, int64_t inputs, Range outputs, const Edges& edges) {
  if (outputs.size() == 0) return {};
  const Range needed = inputs_of(window, inputs, outputs);
  if (window.transposed) return spread(window, needed, outputs);
  return edges.is_circular() ? wrapped(needed, inputs) : folded(needed, inputs, edges);
}

}  // namespace

int64_t outputs_of(const Window& window, int64_t inputs) {
  check(window, inputs);
  if (inputs == 0) return 0;
  if (window.transposed) return transposed_outputs(window, inputs);
  const int64_t padded = inputs + window.before + window.after, free = padded - window.extent();
  require(free >= 0 || (window.ceil_mode && free > -window.stride), [&] {
    return "window: expected a kernel that spans at most the " + std::to_string(padded) +
           " padded inputs, got one that spans " + std::to_string(window.extent());
  });
  if (!window.ceil_mode) return free / window.stride + 1;
  const int64_t last = ceil_of(free, window.stride);
  return last * window.stride < inputs + window.before ? last + 1 : last;
}

Range inputs_of(const Window& window, int64_t inputs, Range outputs) {
  if (outputs.size() == 0) return {};
  const int64_t first = outputs.begin, last = outputs.end - 1;
  if (!window.transposed)
    return {window.stride * first - window.before, window.stride * last - window.before + window.extent()};
  const Range needed{std::max<int64_t>(0, ceil_of(first + window.before - window.extent() + 1, window.stride)),
                     std::min(inputs, floor_of(last + window.before, window.stride) + 1)};
  return needed.size() > 0 ? needed : Range{};
}

std::optional<Range> contiguous_range(const Split& split, int part) {
  Range whole;
  for (const Range& range : split.ranges(part)) {
    if (range.size() == 0) continue;
    if (whole.size() == 0)
      whole = range;
    else if (range.begin == whole.end)
      whole.end = range.end;
    else
      return std::nullopt;
  }
  return whole;
}

bool parts_are_ranges(const Split& split) {
  for (int part = 0; part < split.parts(); ++part)
    if (!contiguous_range(split, part)) return false;
  return true;
}

Split outputs_split(const Window& window, const Split& inputs) {
  const int64_t outputs = outputs_of(window, inputs.size());
  if (window.is_pointwise() || (outputs == inputs.size() && parts_are_ranges(inputs))) return inputs;
  return Split::balanced(outputs, inputs.parts(), inputs.dim());
}

Halo halo_of(const Window& window, int64_t inputs, const Split& outputs, const Edges& edges) {
  const int64_t expected = outputs_of(window, inputs);
  require(outputs.size() == expected, [&] {
    return "window: expected a split of " + std::to_string(expected) + " outputs, got " + outputs.to_string();
  });
  check_padding(window, inputs, edges);
  if (window.is_pointwise()) {
    const auto parts = static_cast<size_t>(outputs.parts());
    return {outputs, std::vector<Pads>(parts), std::vector<std::vector<Places>>(parts), edges};
  }

  std::vector<std::vector<Range>> fetched;
  std::vector<Pads> pads;
  std::vector<std::vector<Places>> order;
  for (int part = 0; part < outputs.parts(); ++part) {
    const std::optional<Range> made = contiguous_range(outputs, part);
    require(made.has_value(), [&] {
      return "window: expected the outputs of each part to be one contiguous range, but part " + std::to_string(part) +
             " of " + outputs.to_string() + " has several";
    });
    Fetch fetch = fetch_of(window, inputs, *made, edges);
    fetched.push_back(std::move(fetch.ranges));
    pads.push_back(fetch.pads);
    order.push_back(std::move(fetch.order));
  }
  return {Split::covering(std::move(fetched), inputs, outputs.dim()), std::move(pads), std::move(order), edges};
}

}  // namespace adjoin
