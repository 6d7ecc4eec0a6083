#include "adjoin/comm/self_test_elements.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "adjoin/base/error.hpp"

namespace adjoin::self_test_detail {

namespace {

/// Calls `work` with a zero of the C++ type.
template <class Work>
auto with_type(ElementType type, Work work) {
  switch (type) {
    case ElementType::boolean:
      return work(bool{});
    case ElementType::uint8:
      return work(uint8_t{});
    case ElementType::int32:
      return work(int32_t{});
    case ElementType::int64:
      return work(int64_t{});
    case ElementType::float16:
      return work(Float16{});
    case ElementType::bfloat16:
      return work(BFloat16{});
    case ElementType::float32:
      return work(float{});
    default:
      return work(double{});
  }
}

void convert(double number, bool& x) {
  x = std::fmod(number, 2) != 0;
}
void convert(double number, Float16& x) {
  x = to_float16(static_cast<float>(number));
}
void convert(double number, BFloat16& x) {
  x = to_bfloat16(static_cast<float>(number));
}
template <class T>
void convert(double number, T& x) {
  x = static_cast<T>(number);
}

double as_double(Float16 x) {
  return to_float(x);
}
double as_double(BFloat16 x) {
  return to_float(x);
}
template <class T>
double as_double(T x) {
  return static_cast<double>(x);
}

constexpr int64_t kPeriod = 5;  // of the results of reductions

/// What a rank gives at place i.
int64_t part_at(int64_t i, Reduction reduction, int rank, int size) {
  if (i % size == rank) return 2 + i % kPeriod;
  if ((i + 1) % size == rank) return 3;
  return reduction == Reduction::sum ? 0 : 1;
}

double combined(double a, double b, Reduction reduction, ElementType type) {
  const bool logical = type == ElementType::boolean;
  switch (reduction) {
    case Reduction::sum:
      return logical ? std::max(a, b) : a + b;
    case Reduction::product:
      return a * b;
    case Reduction::min:
      return std::min(a, b);
    case Reduction::max:
      return std::max(a, b);
    default:
      throw InternalError("self-test: a reduction that it does not know");
  }
}

}  // namespace

double Elements::get(int64_t i) const {
  return with_type(type_, [&](auto x) {
    std::memcpy(&x, bytes_.data() + static_cast<size_t>(i) * sizeof x, sizeof x);
    return as_double(x);
  });
}

void Elements::set(int64_t i, double number) {
  with_type(type_, [&](auto x) {
    convert(number, x);
    std::memcpy(bytes_.data() + static_cast<size_t>(i) * sizeof x, &x, sizeof x);
  });
}

Elements Elements::pattern(ElementType type, int64_t count, int seed) {
  Elements elements(type, count);
  for (int64_t i = 0; i < count; ++i) elements.set(i, static_cast<double>((37 * int64_t{seed} + 7 * i) % 101));
  return elements;
}

Elements Elements::unset(ElementType type, int64_t count) {
  Elements elements(type, count);
  for (int64_t i = 0; i < count; ++i) elements.set(i, 113);
  return elements;
}

Elements Elements::part(ElementType type, int64_t count, Reduction reduction, int rank, int size) {
  Elements elements(type, count);
  for (int64_t i = 0; i < count; ++i) elements.set(i, static_cast<double>(part_at(i, reduction, rank, size)));
  return elements;
}

Elements Elements::reduced(ElementType type, int64_t count, Reduction reduction, int size) {
  Elements first(type, kPeriod);
  Elements given(type, 1);
  for (int64_t i = 0; i < kPeriod; ++i) {
    double result = 0;
    for (int rank = 0; rank < size; ++rank) {
      given.set(0, static_cast<double>(part_at(i, reduction, rank, size)));  // as this type holds it
      result = rank == 0 ? given.get(0) : combined(result, given.get(0), reduction, type);
    }
    first.set(i, result);
  }
  Elements elements(type, count);
  for (int64_t i = 0; i < count; ++i) elements.set(i, first.get(i % kPeriod));
  return elements;
}

void Elements::append(const Elements& others) {
  bytes_.insert(bytes_.end(), others.bytes_.begin(), others.bytes_.end());
  count_ += others.count_;
}

Elements Elements::slice(int64_t begin, int64_t count) const {
  Elements part(type_, count);
  std::copy_n(bytes_.begin() + begin * size_of(type_), part.bytes_.size(), part.bytes_.begin());
  return part;
}

std::string Elements::difference(const Elements& got, const std::string& where) const {
  if (bytes_ == got.bytes_) return "";
  int64_t i = 0;
  while (i < std::min(count_, got.count_) && get(i) == got.get(i)) ++i;
  std::ostringstream text;
  text << name(type_) << " x " << count_ << (where.empty() ? "" : ", ") << where << ": ";
  if (count_ != got.count_)
    text << "got " << got.count_ << " elements";
  else
    text << "expected " << get(i) << " at element " << i << ", got " << got.get(i);
  return text.str();
}

}  // namespace adjoin::self_test_detail
