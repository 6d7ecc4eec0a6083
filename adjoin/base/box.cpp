#include "adjoin/base/box.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>

#include "adjoin/base/copying.hpp"

namespace adjoin {

namespace {

using Numbers = std::span<const int64_t>;

/// Copies from this size on bypass the caches: several ranks copy at once, and the data read is in the caches too.
constexpr int64_t kStreamedBytes = 4 << 20;
constexpr int64_t kCacheLine = 64;

int64_t product(Numbers sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

/// One dim that both sides have, with the distance in bytes between its elements on each side.
struct Dim {
  int64_t size, to, from;
};

/// The dims of both sides, cut until they are the same, innermost first; none where the two do not fit into each other.
bool find_common(Box to, Box from, int64_t element_bytes, std::vector<Dim>& dims) {
  const auto take = [](Box& box, int64_t size) {
    const int64_t stride = box.strides.back();
    if (box.sizes.back() == size) {
      box.sizes.pop_back();
      box.strides.pop_back();
    } else {
      box.sizes.back() /= size;
      box.strides.back() *= size;
    }
    return stride;
  };
  while (!to.sizes.empty()) {
    const int64_t a = to.sizes.back(), b = from.sizes.back(), size = std::min(a, b);
    if (std::max(a, b) % size != 0) return false;
    const int64_t to_stride = take(to, size), from_stride = take(from, size);
    dims.push_back({size, to_stride * element_bytes, from_stride * element_bytes});
  }
  return true;
}

/// Sorts the dims in the order of the memory that is written, innermost last, and merges those that are contiguous on both
/// sides.
void put_in_order(std::vector<Dim>& dims) {
  std::sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return std::abs(a.to) > std::abs(b.to); });
  for (size_t i = dims.size(); i-- > 1;) {
    Dim &outer = dims[i - 1], &inner = dims[i];
    if (outer.to != inner.size * inner.to || outer.from != inner.size * inner.from) continue;
    outer = {outer.size * inner.size, inner.to, inner.from};
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

template <class T>
void copy_apart(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t count) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, from + i * from_step, sizeof(T));
}

/// Transposes: along `rows` the elements of `to` are contiguous, along `columns` those of `from`. A tile has one cache line's
/// elements of each; every line is read once and written once, even where the strides map many lines to the same place in the
/// cache.
template <class T>
void transpose(char* to, const char* from, const Dim& rows, const Dim& columns, Copy copy) {
  constexpr int64_t kTile = kCacheLine / int64_t{sizeof(T)};
  alignas(kCacheLine) T tile[kTile][kTile];
  T row[kTile];
  for (int64_t j = 0; j < columns.size; j += kTile)
    for (int64_t i = 0; i < rows.size; i += kTile) {
      const int64_t height = std::min(kTile, rows.size - i), width = std::min(kTile, columns.size - j);
      for (int64_t r = 0; r < height; ++r) {
        std::memcpy(row, from + (i + r) * rows.from + j * columns.from, static_cast<size_t>(width) * sizeof(T));
        for (int64_t c = 0; c < width; ++c) tile[c][r] = row[c];
      }
      for (int64_t c = 0; c < width; ++c)
        copy(to + (j + c) * columns.to + i * rows.to, tile[c], height * int64_t{sizeof(T)});
    }
}

/// A copy between two boxes with common dims.
class Copier {
 public:
  Copier(std::vector<Dim> dims, int64_t element_bytes) : dims_(std::move(dims)), item_(element_bytes) {
    int64_t bytes = item_;
    for (const Dim& dim : dims_) bytes *= dim.size;
    copy_ = bytes > kStreamedBytes ? stream_part : copy_bytes;
    if (dims_.empty()) dims_.push_back({1, item_, item_});
    if (dims_.back().to != item_) return;
    has_runs_ = dims_.back().from == item_;
    const auto columns = std::find_if(dims_.begin(), dims_.end(), [&](const Dim& dim) { return dim.from == item_; });
    is_transposed_ = !has_runs_ && columns != dims_.end();
    if (is_transposed_) std::rotate(columns, columns + 1, dims_.end() - 1);
  }

  void run(char* to, const char* from) const {
    run_from(0, to, from);
    finish_streaming();
  }

 private:
  void run_from(size_t depth, char* to, const char* from) const {
    const Dim& dim = dims_[depth];
    if (depth + 1 == dims_.size()) return has_runs_ ? copy_(to, from, dim.size * item_) : apart(to, from, dim);
    if (depth + 2 == dims_.size() && is_transposed_) return transposed(to, from, dims_.back(), dim);
    for (int64_t i = 0; i < dim.size; ++i) run_from(depth + 1, to + i * dim.to, from + i * dim.from);
  }

  void apart(char* to, const char* from, const Dim& dim) const {
    with_item([&](auto item) { copy_apart<decltype(item)>(to, dim.to, from, dim.from, dim.size); });
  }

  void transposed(char* to, const char* from, const Dim& rows, const Dim& columns) const {
    with_item([&](auto item) { transpose<decltype(item)>(to, from, rows, columns, copy_); });
  }

  /// work(T{}) for an integer T of the size of an element.
  template <class Work>
  void with_item(Work work) const {
    switch (item_) {
      case 1:
        return work(uint8_t{});
      case 2:
        return work(uint16_t{});
      case 4:
        return work(uint32_t{});
      default:
        return work(uint64_t{});
    }
  }

  std::vector<Dim> dims_;
  int64_t item_;
  Copy copy_ = copy_bytes;
  bool has_runs_ = false, is_transposed_ = false;
};

/// A walk through a box in row-major order, along its innermost dim.
class Walk {
 public:
  explicit Walk(const Box& box) : box_(box), place_(box.sizes.size()) {}

  int64_t left() const { return box_.sizes.back() - place_.back(); }
  int64_t stride() const { return box_.strides.back(); }
  int64_t offset() const { return offset_; }

  /// Advances by at most left() elements.
  void advance(int64_t elements) {
    place_.back() += elements;
    offset_ += elements * stride();
    for (size_t i = place_.size() - 1; i > 0 && place_[i] == box_.sizes[i]; --i) {
      offset_ += box_.strides[i - 1] - place_[i] * box_.strides[i];
      place_[i] = 0;
      ++place_[i - 1];
    }
  }

 private:
  const Box& box_;
  std::vector<int64_t> place_;
  int64_t offset_ = 0;
};

/// Copies between boxes whose dims do not fit into each other, such as 2 x 3 and 3 x 2, in runs that are contiguous on both
/// sides.
void copy_by_runs(char* to, const Box& to_box, const char* from, const Box& from_box, int64_t count, int64_t item) {
  Walk writing(to_box), reading(from_box);
  while (count > 0) {
    const int64_t n = std::min(writing.left(), reading.left());
    Copier({{n, writing.stride() * item, reading.stride() * item}}, item)
        .run(to + writing.offset() * item, from + reading.offset() * item);
    writing.advance(n);
    reading.advance(n);
    count -= n;
  }
}

}  // namespace

Box merged(Numbers sizes, Numbers strides) {
  Box box;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1) continue;
    if (!box.sizes.empty() && box.strides.back() == sizes[i] * strides[i]) {
      box.sizes.back() *= sizes[i];
      box.strides.back() = strides[i];
    } else {
      box.sizes.push_back(sizes[i]);
      box.strides.push_back(strides[i]);
    }
  }
  return box;
}

void copy_box(void* to, Numbers to_sizes, Numbers to_strides, const void* from, Numbers from_sizes,
              Numbers from_strides, int64_t element_bytes) {
  const int64_t count = product(to_sizes.empty() ? from_sizes : to_sizes);
  if (count == 0) return;
  const auto box_of = [&](Numbers sizes, Numbers strides) {
    const int64_t stride = 1;
    return sizes.empty() ? merged({&count, 1}, {&stride, 1}) : merged(sizes, strides);
  };
  const Box to_box = box_of(to_sizes, to_strides), from_box = box_of(from_sizes, from_strides);
  std::vector<Dim> dims;
  if (!find_common(to_box, from_box, element_bytes, dims))
    return copy_by_runs(static_cast<char*>(to), to_box, static_cast<const char*>(from), from_box, count, element_bytes);
  put_in_order(dims);
  Copier(std::move(dims), element_bytes).run(static_cast<char*>(to), static_cast<const char*>(from));
}

BoxBytes::BoxBytes(const void* begin, int64_t count, Numbers sizes, Numbers strides, int64_t element_bytes)
    : begin_(reinterpret_cast<intptr_t>(begin)), is_empty_(count == 0) {
  add(1, sizes.empty() ? count * element_bytes : element_bytes);
  for (size_t dim = 0; dim < sizes.size(); ++dim) add(strides[dim] * element_bytes, sizes[dim]);
}

void BoxBytes::add(int64_t stride, int64_t size) {
  if (size < 2 || stride == 0) return;
  if (dims_ == kMostDims)
    is_empty_ = true;  // overlap() gives no answer for it
  else
    steps_[dims_++] = {stride, size - 1};
  (stride < 0 ? low_ : high_) += stride * (size - 1);
}

/// Whether some sum of k[d] stride[d], each k from 0 to its `last`, equals `wanted`. Strides decrease, and usually each is
/// longer than all later ones reach together, so that one or two values of k are possible; where more are, some are not tried.
bool BoxBytes::is_sum(std::span<const Step> steps, int64_t wanted) {
  if (steps.empty()) return wanted == 0;
  int64_t reach = 0;
  for (const Step& later : steps.subspan(1)) reach += later.stride * later.last;
  const auto [stride, last] = steps[0];
  const int64_t most = std::min(last, wanted / stride);
  for (int64_t k = most; k >= std::max<int64_t>(0, most - 1) && wanted >= 0 && wanted - k * stride <= reach; --k)
    if (is_sum(steps.subspan(1), wanted - k * stride)) return true;
  return false;
}

bool overlap(const BoxBytes& a, const BoxBytes& b) {
  if (a.is_empty_ || b.is_empty_ || a.begin_ + a.low_ > b.begin_ + b.high_ || b.begin_ + b.low_ > a.begin_ + a.high_)
    return false;
  // a + i s = b + j t, with every term rewritten for a positive stride.
  int64_t wanted = b.begin_ - a.begin_;
  std::array<BoxBytes::Step, 2 * BoxBytes::kMostDims> all;
  size_t dims = 0;
  const auto add = [&](const BoxBytes& place, int sign) {
    for (size_t d = 0; d < place.dims_; ++d) {
      auto [stride, last] = place.steps_[d];
      stride *= sign;
      if (stride < 0) wanted -= stride * last, stride = -stride;
      const auto same =
          std::find_if(all.begin(), all.begin() + dims, [&](const auto& s) { return s.stride == stride; });
      if (same == all.begin() + dims)
        all[dims++] = {stride, last};
      else
        same->last += last;
    }
  };
  add(a, 1);
  add(b, -1);
  std::sort(all.begin(), all.begin() + dims, [](const auto& x, const auto& y) { return x.stride > y.stride; });
  return BoxBytes::is_sum({all.data(), dims}, wanted);
}

}  // namespace adjoin
