#include "examples/support/drawn_digits.hpp"

#include <ATen/ops/empty.h>

#include <array>

#include "adjoin/data/random.hpp"

namespace adjoin::example {
namespace {

constexpr int64_t kSide = 28;

// A bit for each segment that a digit shows: top, upper left, upper right, middle, lower left, lower right, bottom.
constexpr std::array<unsigned, 10> kSegments{0b1110111, 0b0010010, 0b1011101, 0b1011011, 0b0111010,
                                             0b1101011, 0b1101111, 0b1010010, 0b1111111, 0b1111011};

/// The frame of a digit, the width of its lines and their brightness.
struct Frame {
  int64_t left, top, width, half, line;
  uint8_t ink;
};

void fill(uint8_t* picture, int64_t top, int64_t left, int64_t height, int64_t width, uint8_t ink) {
  for (int64_t y = top; y < top + height; ++y)
    for (int64_t x = left; x < left + width; ++x) picture[y * kSide + x] = ink;
}

void draw(uint8_t* picture, unsigned segments, const Frame& f) {
  const int64_t right = f.left + f.width - f.line;
  const auto shows = [&](int segment) { return (segments >> (6 - segment) & 1) != 0; };
  const auto horizontal = [&](int64_t top) { fill(picture, top, f.left, f.line, f.width, f.ink); };
  const auto vertical = [&](int64_t top, int64_t left) { fill(picture, top, left, f.half + f.line, f.line, f.ink); };
  if (shows(0)) horizontal(f.top);
  if (shows(1)) vertical(f.top, f.left);
  if (shows(2)) vertical(f.top, right);
  if (shows(3)) horizontal(f.top + f.half);
  if (shows(4)) vertical(f.top + f.half, f.left);
  if (shows(5)) vertical(f.top + f.half, right);
  if (shows(6)) horizontal(f.top + 2 * f.half);
}

}  // namespace

LabelledPictures draw_digits(int64_t count, uint64_t seed) {
  LabelledPictures data{at::empty({count, kSide, kSide}, at::kByte), at::empty({count}, at::kByte)};
  for (int64_t i = 0; i < count; ++i) {
    data::SplitMix64 random(seed, static_cast<uint64_t>(i));
    const auto from = [&](int64_t least, int64_t most) {
      return least + static_cast<int64_t>(random.below(static_cast<uint64_t>(most - least + 1)));
    };
    auto* picture = data.pictures.mutable_data_ptr<uint8_t>() + i * kSide * kSide;
    for (int64_t pixel = 0; pixel < kSide * kSide; ++pixel) picture[pixel] = static_cast<uint8_t>(from(0, 40));
    Frame frame{.left = 0, .top = 0, .width = from(8, 12), .half = from(7, 9), .line = from(2, 3), .ink = 0};
    frame.left = (kSide - frame.width) / 2 + from(-2, 2);
    frame.top = (kSide - frame.line) / 2 - frame.half + from(-2, 2);
    frame.ink = static_cast<uint8_t>(from(180, 255));
    draw(picture, kSegments[static_cast<size_t>(i % 10)], frame);
    data.labels.mutable_data_ptr<uint8_t>()[i] = static_cast<uint8_t>(i % 10);
  }
  return data;
}

}  // namespace adjoin::example
