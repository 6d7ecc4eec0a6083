#include "adjoin/texts/class_counts.hpp"

#include <ATen/ops/argmax.h>

#include <numeric>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::train {

ClassCounts::ClassCounts(int64_t classes)
    : classes_(classes), counts_(static_cast<size_t>(classes * (has_pairs() ? kPairs + classes : kPairs))) {}

ClassCounts::ClassCounts(int64_t classes, std::span<const double> counts) : ClassCounts(classes) {
  require(counts.size() == counts_.size(), [&] {
    return "ClassCounts: expected " + std::to_string(counts_.size()) + " counts, got " + std::to_string(counts.size());
  });
  std::transform(counts.begin(), counts.end(), counts_.begin(), [](double n) { return static_cast<int64_t>(n); });
}

void ClassCounts::add(const at::Tensor& scores, const at::Tensor& labels) {
  if (labels.numel() == 0) return;
  const at::Tensor taken = scores.argmax(-1).cpu().contiguous(), actual = plain("labels", labels).cpu().contiguous();
  const auto* t = taken.const_data_ptr<int64_t>();
  const auto* a = actual.const_data_ptr<int64_t>();
  const auto count = [&](int64_t row, int64_t c) { ++counts_[static_cast<size_t>(row * classes_ + c)]; };
  for (int64_t i = 0; i < labels.numel(); ++i) {
    count(kActual, a[i]);
    count(kTaken, t[i]);
    if (a[i] == t[i]) count(kRight, a[i]);
    if (has_pairs()) count(kPairs + a[i], t[i]);
  }
}

int64_t ClassCounts::sum(int64_t row) const {
  const auto begin = counts_.begin() + row * classes_;
  return std::accumulate(begin, begin + classes_, int64_t{0});
}

int64_t ClassCounts::samples() const {
  return sum(kActual);
}

int64_t ClassCounts::right() const {
  return sum(kRight);
}

double ClassCounts::accuracy() const {
  const int64_t all = samples();
  return all == 0 ? 0 : static_cast<double>(right()) / static_cast<double>(all);
}

double ClassCounts::f1(int64_t c) const {
  const int64_t both = of_class(c) + taken_for(c);
  return both == 0 ? 0 : 2 * static_cast<double>(at(kRight, c)) / static_cast<double>(both);
}

double ClassCounts::macro_f1() const {
  double sum = 0, met = 0;
  for (int64_t c = 0; c < classes_; ++c) {
    sum += f1(c);
    met += of_class(c) + taken_for(c) > 0;
  }
  return met == 0 ? 0 : sum / met;
}

}  // namespace adjoin::train
