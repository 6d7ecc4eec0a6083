#include <torch/nn/functional.h>

#include "tests/support/global_tensors.hpp"

namespace adjoin::rules_of_windows {
namespace {

using namespace adjoin::testing;

at::Tensor circular(const at::Tensor& x, const std::vector<int64_t>& pads) {
  return torch::nn::functional::pad(x, torch::nn::functional::PadFuncOptions(pads).mode(torch::kCircular));
}

TEST(RulesOfWindows, pad) {
  expect_all_as_plain({
      {"reflect",
       [](const Tensors& x) {
         return at::reflection_pad1d(x[0], {2, 3}).tanh();
       },
       {{2, 3, 7}}},
      {"reflect 2",
       [](const Tensors& x) {
         return at::reflection_pad2d(x[0], {2, 1, 0, 3}).tanh();
       },
       {{2, 2, 6, 5}}},
      {"replicate",
       [](const Tensors& x) {
         return at::replication_pad2d(x[0], {1, 2, 3, 0}).tanh();
       },
       {{2, 3, 4, 6}}},
      {"circular",
       [](const Tensors& x) {
         return circular(x[0], {2, 1, 1, 2}).tanh();
       },
       {{2, 3, 5, 6}}},
      {"constant",
       [](const Tensors& x) {
         return at::constant_pad_nd(x[0], {1, 2, 0, 0, 2, -1}, 0.5).tanh();
       },
       {{2, 3, 5, 4, 6}}},
      {"crop",
       [](const Tensors& x) {
         return at::constant_pad_nd(x[0], {-1, 1, -2, 0}).tanh();
       },
       {{3, 6, 5}}},
      {"after a sum",
       [](const Tensors& x) {
         return at::reflection_pad1d(at::matmul(x[0], x[1]), {1, 2}).tanh();
       },
       {{3, 4, 5}, {5, 6}}},
  });
}

TEST(RulesOfWindows, unfold) {
  expect_all_as_plain({
      {"unfold", [](const Tensors& x) { return x[0].unfold(1, 3, 2).tanh(); }, {{3, 9, 4}}},
      {"unfold that overlaps", [](const Tensors& x) { return x[0].unfold(0, 4, 1).tanh(); }, {{7, 3}}},
      {"unfold with gaps", [](const Tensors& x) { return x[0].unfold(-1, 2, 3).tanh(); }, {{3, 10}}},
      {"patches",
       [](const Tensors& x) {
         return x[0].unfold(2, 2, 2).unfold(3, 3, 3).permute({0, 2, 3, 1, 4, 5}).flatten(3);
       },
       {{2, 3, 4, 6}}},
      {"im2col",
       [](const Tensors& x) {
         return at::im2col(x[0], {2, 3}, {1, 1}, {0, 1}, {2, 1}).tanh();
       },
       {{3, 2, 4, 5}}},
      {"col2im",
       [](const Tensors& x) {
         return at::col2im(x[0], {4, 5}, {2, 3}, {1, 1}, {0, 1}, {2, 1}).tanh();
       },
       {{3, 12, 10}}},
      {"pixel_shuffle",
       [](const Tensors& x) { return at::pixel_unshuffle(at::pixel_shuffle(x[0], 2).tanh(), 2).sin(); },
       {{2, 4, 3, 2}}},
      {"bicubic",
       [](const Tensors& x) {
         return at::upsample_bicubic2d(x[0], {6, 5}, false).tanh();
       },
       {{2, 3, 4, 4}}},
  });
}

TEST(RulesOfWindows, transform) {
  expect_all_as_plain({
      {"rfft", [](const Tensors& x) { return at::abs(at::fft_rfft(x[0]) + 3); }, {{4, 6}}},
      {"irfft", [](const Tensors& x) { return at::fft_irfft(at::complex(x[0], x[1]), 7, 0).tanh(); }, {{4, 5}, {4, 5}}},
      {"fft", [](const Tensors& x) { return at::real(at::fft_fft(x[0], 5, 1)).tanh(); }, {{3, 6, 2}}},
      {"fft of planes",
       [](const Tensors& x) {
         const at::Tensor z = at::fft_fft2(x[0], {}, {1, 2});
         return at::imag(at::fft_ifft2(z * z.conj() * at::polar(x[1], x[1]), {}, {1, 2}));
       },
       {{3, 4, 5}, {4, 5}}},
      {"filter",
       [](const Tensors& x) {
         const at::Tensor z = at::view_as_complex(x[1]);
         return at::fft_irfft2(at::fft_rfft2(x[0], {}, {1, 2}) * z, {{4, 6}}, {1, 2}).tanh();
       },
       {{3, 4, 6, 2}, {4, 4, 2, 2}}},
      {"shifted", [](const Tensors& x) { return at::view_as_real(at::fft_fftshift(at::fft_fft(x[0]))); }, {{3, 5}}},
  });
}

}  // namespace
}  // namespace adjoin::rules_of_windows
