#include "adjoin/partition/window.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <random>

#include "adjoin/base/error.hpp"
#include "tests/support/sanitized.hpp"

namespace adjoin {
namespace {

using Values = std::vector<uint64_t>;  // arithmetic modulo 2^64 is exact, so results are compared for equality

constexpr int64_t kSizes = 24, kKernels = 7, kStrides = 4, kDilations = 3, kPaddings = 3;
constexpr int64_t kSizeStep = testing::kIsSanitized ? 7 : 1;
constexpr int kWorkers = 6;

std::string text(const Window& w, int64_t inputs, const Split& outputs) {
  return "kernel " + std::to_string(w.kernel) + ", stride " + std::to_string(w.stride) + ", dilation " +
         std::to_string(w.dilation) + ", padding " + std::to_string(w.before) + " and " + std::to_string(w.after) +
         (w.ceil_mode ? ", ceil mode" : "") +
         (w.transposed ? ", transposed, output padding " + std::to_string(w.output_padding) : "") + ", inputs " +
         std::to_string(inputs) + ", outputs " + outputs.to_string();
}

Values random_values(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  Values values(static_cast<size_t>(count));
  for (uint64_t& value : values) value = random() | 1;  // never 0, the padding
  return values;
}

/// The inputs with what lies beyond their ends, built one index after the other.
Values padded(const Values& x, const Window& w, Padding padding, int64_t more) {
  Values result = x;
  const auto n = static_cast<std::ptrdiff_t>(x.size());
  for (std::ptrdiff_t i = 1; i <= w.before; ++i) {
    uint64_t value = 0;
    if (padding == Padding::replicate) value = x[0];
    if (padding == Padding::reflect) value = x[static_cast<size_t>(i)];
    if (padding == Padding::circular) value = x[static_cast<size_t>(n - i)];
    result.insert(result.begin(), value);
  }
  for (std::ptrdiff_t i = 1; i <= w.after; ++i) {
    uint64_t value = 0;
    if (padding == Padding::replicate) value = x.back();
    if (padding == Padding::reflect) value = x[static_cast<size_t>(n - 1 - i)];
    if (padding == Padding::circular) value = x[static_cast<size_t>(i - 1)];
    result.push_back(value);
  }
  result.insert(result.end(), static_cast<size_t>(more), 0);
  return result;
}

/// All outputs whose windows fit in `x`, which has its padding.
Values slide(const Values& x, const Values& weight, const Window& w, size_t most = SIZE_MAX) {
  Values outputs;
  for (int64_t begin = 0; begin + w.extent() <= static_cast<int64_t>(x.size()) && outputs.size() < most;
       begin += w.stride) {
    uint64_t sum = 0;
    for (int64_t t = 0; t < w.kernel; ++t)
      sum += weight[static_cast<size_t>(t)] * x[static_cast<size_t>(begin + w.dilation * t)];
    outputs.push_back(sum);
  }
  return outputs;
}

/// How many windows LibTorch counts: those that fit; with ceil mode one more, if the others leave an input over; but
/// then not a last one that begins in the padding behind.
size_t count_windows(const Window& w, int64_t inputs) {
  const int64_t size = w.before + inputs + w.after;
  int64_t count = 0, end = 0;
  for (int64_t begin = 0; begin + w.extent() <= size; begin += w.stride, ++count) end = begin + w.extent();
  if (w.ceil_mode && end < size) ++count;
  if (w.ceil_mode && (count - 1) * w.stride >= w.before + inputs) --count;
  return static_cast<size_t>(count);
}

/// Every input adds to `kernel` outputs; nothing is cropped yet.
Values spread(const Values& x, const Values& weight, const Window& w) {
  Values outputs(x.empty() ? 0 : (x.size() - 1) * static_cast<size_t>(w.stride) + static_cast<size_t>(w.extent()), 0);
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t t = 0; t < static_cast<size_t>(w.kernel); ++t)
      outputs[i * static_cast<size_t>(w.stride) + t * static_cast<size_t>(w.dilation)] += weight[t] * x[i];
  return outputs;
}

Values transposed_outputs(const Values& x, const Values& weight, const Window& w) {
  Values all = spread(x, weight, w);
  all.insert(all.end(), static_cast<size_t>(w.output_padding), 0);
  if (static_cast<int64_t>(all.size()) <= w.before + w.after) return {};
  return {all.begin() + w.before, all.end() - w.after};
}

Values with_pads(Values x, Pads pads) {
  if (pads.left < 0) x.erase(x.begin(), x.begin() - pads.left);
  if (pads.left > 0) x.insert(x.begin(), static_cast<size_t>(pads.left), 0);
  x.resize(static_cast<size_t>(static_cast<int64_t>(x.size()) + pads.right), 0);
  return x;
}

/// What a part computes from what it fetched.
Values outputs_of_part(const Values& x, const Values& weight, const Window& w, const Halo& halo, int part) {
  Values fetched;
  for (const Range& range : halo.fetched.ranges(part))
    fetched.insert(fetched.end(), &x[0] + range.begin, &x[0] + range.end);
  const auto index = static_cast<size_t>(part);
  if (w.transposed) return with_pads(spread(fetched, weight, w), halo.pads[index]);
  if (!halo.order[index].empty()) {
    Values ordered;
    for (const Places& places : halo.order[index])
      for (int64_t i = 0; i < places.count; ++i)
        ordered.push_back(fetched.at(static_cast<size_t>(places.begin + i * places.step)));
    fetched = ordered;
  }
  return slide(with_pads(fetched, halo.pads[index]), weight, w);
}

/// The first part whose outputs are not those of `expected` that it owns.
std::optional<int> wrong_part(const Values& x, const Values& weight, const Window& w, const Split& outputs,
                              Padding padding, const Values& expected) {
  const Halo halo = halo_of(w, static_cast<int64_t>(x.size()), outputs, padding);
  for (int part = 0; part < outputs.parts(); ++part) {
    Values mine;
    for (const Range& range : outputs.ranges(part))
      mine.insert(mine.end(), expected.begin() + range.begin, expected.begin() + range.end);
    if (mine.empty() ? halo.fetched.size(part) != 0 : outputs_of_part(x, weight, w, halo, part) != mine) return part;
  }
  return std::nullopt;
}

/// Whether the parts' outputs are those of one worker, for 1 to 6 workers.
::testing::AssertionResult on_every_number_of_workers(const Values& x, const Values& weight, const Window& w,
                                                      Padding padding, const Values& expected) {
  const auto inputs = static_cast<int64_t>(x.size());
  for (int workers = 1; workers <= kWorkers; ++workers) {
    const Split outputs = outputs_split(w, Split::balanced(inputs, workers, 0));
    if (outputs.size() != static_cast<int64_t>(expected.size()))
      return ::testing::AssertionFailure() << text(w, inputs, outputs) << ": one worker has " << expected.size();
    if (const auto part = wrong_part(x, weight, w, outputs, padding, expected))
      return ::testing::AssertionFailure()
             << text(w, inputs, outputs) << ": part " << *part << " is wrong, padding " << static_cast<int>(padding);
  }
  return ::testing::AssertionSuccess();
}

void for_each_window(const std::function<void(Window, int64_t inputs)>& check) {
  for (int64_t inputs = 1; inputs <= kSizes; inputs += kSizeStep)
    for (int64_t kernel = 1; kernel <= kKernels; ++kernel)
      for (int64_t stride = 1; stride <= kStrides; ++stride)
        for (int64_t dilation = 1; dilation <= kDilations; ++dilation)
          for (int64_t before = 0; before <= kPaddings; ++before)
            for (int64_t after = 0; after <= kPaddings && !::testing::Test::HasFailure(); ++after)
              check({.kernel = kernel, .stride = stride, .dilation = dilation, .before = before, .after = after},
                    inputs);
}

bool allows(Padding padding, const Window& w, int64_t inputs) {
  const int64_t most = std::max(w.before, w.after);
  return padding == Padding::reflect ? most < inputs : padding == Padding::circular ? most <= inputs : true;
}

TEST(Window, every_part_computes_its_outputs_from_what_it_fetched) {
  const Values weight = random_values(kKernels, 1);
  int64_t windows = 0, refused = 0;
  for_each_window([&](Window w, int64_t inputs) {
    const Values x = random_values(inputs, 2);
    for (const bool ceil_mode : {false, true}) {
      w.ceil_mode = ceil_mode;
      const size_t count = count_windows(w, inputs);
      const int64_t beyond = w.extent() - inputs - w.before - w.after;  // what leaves the padded inputs
      if (beyond > 0 && !(ceil_mode && beyond < w.stride)) {
        EXPECT_THROW(outputs_of(w, inputs), InvalidArgument) << text(w, inputs, Split::balanced(0, 1, 0));
        ++refused;
        continue;
      }
      for (const Padding padding : {Padding::zeros, Padding::replicate, Padding::reflect, Padding::circular}) {
        if (!allows(padding, w, inputs) || (ceil_mode && padding != Padding::zeros)) continue;
        const int64_t more = ceil_mode ? kStrides + w.extent() : 0;
        ASSERT_TRUE(
            on_every_number_of_workers(x, weight, w, padding, slide(padded(x, w, padding, more), weight, w, count)));
        ++windows;
      }
    }
  });
  EXPECT_GT(windows, 90'000 / kSizeStep);
  EXPECT_GT(refused, 5'000 / kSizeStep);
}

TEST(Window, every_part_computes_its_transposed_outputs_from_what_it_fetched) {
  const Values weight = random_values(kKernels, 1);
  int64_t windows = 0, refused = 0;
  for_each_window([&](Window w, int64_t inputs) {
    const Values x = random_values(inputs, 2);
    w.transposed = true;
    for (w.output_padding = 0; w.output_padding < std::max({w.stride, w.dilation}); ++w.output_padding) {
      const Values expected = transposed_outputs(x, weight, w);
      if (expected.empty()) {
        EXPECT_THROW(outputs_of(w, inputs), InvalidArgument);
        ++refused;
        continue;
      }
      ASSERT_TRUE(on_every_number_of_workers(x, weight, w, Padding::zeros, expected));
      ++windows;
    }
  });
  EXPECT_GT(windows, 80'000 / kSizeStep);
  EXPECT_GT(refused, 500 / kSizeStep);
}

TEST(Window, parts_of_any_size_in_any_order_get_what_they_need) {
  const Values weight = random_values(kKernels, 1);
  std::mt19937_64 random(3);
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int trial = 0; trial < 20'000; ++trial) {
    Window w{.kernel = draw(1, kKernels), .stride = draw(1, kStrides), .dilation = draw(1, kDilations)};
    const int64_t inputs = draw(1, kSizes);
    const auto padding = static_cast<Padding>(draw(0, 3));
    w.before = draw(0, kPaddings), w.after = draw(0, kPaddings), w.transposed = padding == Padding::zeros && draw(0, 1);
    const Values x = random_values(inputs, 2);
    if (!allows(padding, w, inputs) || (!w.transposed && w.extent() > inputs + w.before + w.after)) continue;
    const Values expected =
        w.transposed ? transposed_outputs(x, weight, w) : slide(padded(x, w, padding, 0), weight, w);
    if (expected.empty()) continue;

    const int parts = static_cast<int>(draw(1, kWorkers));
    const auto outputs = static_cast<int64_t>(expected.size());
    std::vector<int64_t> borders{0, outputs};
    for (int i = 1; i < parts; ++i) borders.push_back(draw(0, outputs));
    std::sort(borders.begin(), borders.end());
    std::vector<std::vector<Range>> ranges;
    for (size_t i = 0; i + 1 < borders.size(); ++i) ranges.push_back({{borders[i], borders[i + 1]}});
    std::shuffle(ranges.begin(), ranges.end(), random);
    const Split split = Split::of_ranges(ranges, outputs, 0);
    ASSERT_EQ(wrong_part(x, weight, w, split, padding, expected), std::nullopt) << text(w, inputs, split);
  }
}

/// How much a part fetches beyond its own block, on both sides.
Pads width(const Split& inputs, const Halo& halo, int part) {
  const Range own = inputs.ranges(part)[0], fetched = halo.fetched.ranges(part)[0];
  return {std::max<int64_t>(0, own.begin - fetched.begin), std::max<int64_t>(0, fetched.end - own.end)};
}

TEST(Window, the_second_of_four_workers_sends_an_index_that_it_drops) {
  const Window window{.kernel = 2, .stride = 2};
  const Split inputs = Split::balanced(10, 4, 0);  // 3, 3, 2, 2
  const Halo halo = halo_of(window, 10, outputs_split(window, inputs));
  EXPECT_EQ(width(inputs, halo, 0), (Pads{0, 1}));
  EXPECT_EQ(halo.fetched.ranges(1)[0], (Range{4, 6}));  // of its own [3, 6)
  for (const int part : {1, 2, 3}) EXPECT_EQ(width(inputs, halo, part), (Pads{0, 0})) << part;
}

TEST(Window, of_three_on_three_workers_reaches_one_neighbour_on_each_side) {
  const Window window{.kernel = 3, .before = 1, .after = 1};
  const Split inputs = Split::balanced(10, 3, 0);
  const Halo halo = halo_of(window, 10, outputs_split(window, inputs));
  EXPECT_EQ(width(inputs, halo, 0), (Pads{0, 1}));
  EXPECT_EQ(width(inputs, halo, 1), (Pads{1, 1}));
  EXPECT_EQ(width(inputs, halo, 2), (Pads{1, 0}));
  EXPECT_EQ(halo.pads, (std::vector<Pads>{{1, 0}, {0, 0}, {0, 1}}));
}

TEST(Window, a_circular_padding_fetches_the_other_end_first) {
  const Window window{.kernel = 3, .before = 1, .after = 1};
  const Halo halo = halo_of(window, 4, Split::balanced(4, 2, 1), Padding::circular);
  const auto first = halo.fetched.ranges(0);
  EXPECT_EQ(std::vector<Range>(first.begin(), first.end()), (std::vector<Range>{{3, 4}, {0, 3}}));
  EXPECT_EQ(halo.fetched.dim(), 1);
}

TEST(Window, a_reflected_edge_is_fetched_once) {
  const Window window{.kernel = 5, .before = 2, .after = 2};
  const Halo halo = halo_of(window, 6, Split::balanced(6, 2, 0), Padding::reflect);
  EXPECT_EQ(halo.fetched.ranges(0)[0], (Range{0, 5}));
  EXPECT_EQ(halo.order[0], (std::vector<Places>{{2, -1, 2}, {0, 1, 5}}));
}

TEST(Window, refuses_what_overflows) {
  const int64_t huge = int64_t{1} << 61;
  for (const Window& window :
       {Window{.kernel = huge + 1, .dilation = 4}, Window{.before = huge}, Window{.stride = huge}})
    EXPECT_THROW(outputs_of(window, 6), InvalidArgument);
}

TEST(Window, a_padded_edge_takes_no_room_for_each_index) {
  const int64_t size = int64_t{1} << 40;
  const Window window{.kernel = 5, .before = 2, .after = 2};
  const Halo halo = halo_of(window, size, Split::balanced(size, 2, 0), Padding::replicate);
  EXPECT_EQ(halo.order[0], (std::vector<Places>{{0, 0, 2}, {0, 1, size / 2 + 2}}));
  EXPECT_EQ(halo.order[1], (std::vector<Places>{{0, 1, size / 2 + 2}, {size / 2 + 1, 0, 2}}));
}

TEST(Window, keeps_the_split_of_the_inputs_where_sizes_are_equal) {
  const Window same{.kernel = 3, .before = 1, .after = 1}, half{.kernel = 2, .stride = 2};
  const Split uneven = Split::at({0, 7, 8}, 10, 0);
  EXPECT_EQ(outputs_split(same, uneven), uneven);
  EXPECT_EQ(outputs_split(half, uneven), Split::balanced(5, 3, 0));
  const Split pieces = Split::of_ranges({{{0, 2}, {8, 10}}, {{2, 8}}}, 10, 0);
  EXPECT_EQ(outputs_split(same, pieces), Split::balanced(10, 2, 0));
}

TEST(Window, of_an_empty_dim_has_no_outputs) {
  const Window window{.kernel = 3, .before = 1, .after = 1};
  EXPECT_EQ(outputs_of(window, 0), 0);
  EXPECT_EQ(halo_of(window, 0, Split::balanced(0, 2, 0), Padding::reflect).fetched.sizes(),
            (std::vector<int64_t>{0, 0}));
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(Window, says_what_is_wrong_with_it) {
  EXPECT_EQ(refusal([] { outputs_of({.kernel = 0}, 4); }), "window: expected a kernel of at least 1, got 0");
  EXPECT_EQ(refusal([] { outputs_of({.before = -1}, 4); }),
            "window: expected a padding before the inputs of at least 0, got -1");
  EXPECT_EQ(refusal([] { outputs_of({.kernel = 4, .dilation = 2, .before = 1}, 4); }),
            "window: expected a kernel that spans at most the 5 padded inputs, got one that spans 7");
  EXPECT_EQ(refusal([] { outputs_of({.before = 2, .after = 3, .transposed = true}, 4); }),
            "window: expected paddings that crop fewer than the 4 outputs, got 2 + 3");
  EXPECT_EQ(refusal([] { outputs_of({.output_padding = 1}, 4); }),
            "window: only a transposed window has an output padding");
  EXPECT_EQ(refusal([] { outputs_of({.stride = 2, .transposed = true, .output_padding = 2}, 4); }),
            "window: expected an output padding less than stride 2 or dilation 1, got 2");
}

TEST(Window, says_what_is_wrong_with_a_halo) {
  const Window wide{.kernel = 7, .before = 3, .after = 3};
  const auto halo = [&](Padding padding, int64_t inputs) {
    return refusal([&] { halo_of(wide, inputs, Split::balanced(inputs, 2, 0), padding); });
  };
  EXPECT_EQ(halo(Padding::reflect, 3), "window: expected a reflect padding of at most 2 for 3 inputs, got 3");
  EXPECT_EQ(halo(Padding::circular, 2), "window: expected a circular padding of at most 2 for 2 inputs, got 3");
  EXPECT_EQ(halo(Padding::circular, 3), "nothing was refused");
  EXPECT_EQ(halo(Padding::replicate, 1), "nothing was refused");
  EXPECT_EQ(refusal([&] { halo_of(wide, 9, Split::balanced(8, 2, 0)); }),
            "window: expected a split of 9 outputs, got dim 0 of 8 as 4, 4");
  EXPECT_EQ(refusal([&] {
              halo_of(wide, 4, Split::of_ranges({{{0, 1}, {3, 4}}, {{1, 3}}}, 4, 0));
            }),
            "window: expected the outputs of each part to be one contiguous range, but part 0 of dim 0 of 4 as 2, 2, "
            "from [0, 1) [3, 4) [1, 3) has several");
  EXPECT_EQ(refusal([] { halo_of({.kernel = 3, .ceil_mode = true}, 4, Split::balanced(2, 2, 0), Padding::reflect); }),
            "window: a window that is transposed or has ceil mode can be padded with zeros only");
}

}  // namespace
}  // namespace adjoin
