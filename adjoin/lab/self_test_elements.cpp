#include "adjoin/lab/self_test_elements.hpp"

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

bool is_logical(Reduction reduction) {
  return reduction == Reduction::logical_and || reduction == Reduction::logical_or ||
         reduction == Reduction::logical_xor;
}

/// What changes little or nothing.
int64_t neutral(Reduction reduction) {
  switch (reduction) {
    case Reduction::bit_and:
      return 7;
    case Reduction::product:
    case Reduction::min:
    case Reduction::max:
    case Reduction::logical_and:
      return 1;
    default:
      return 0;
  }
}

/// What a rank gives at place i.
int64_t part_at(int64_t i, Reduction reduction, int rank, int size) {
  if (i % size == rank) return is_logical(reduction) ? i % kPeriod : 2 + i % kPeriod;
  return (i + 1) % size == rank ? 3 : neutral(reduction);
}

int64_t combined(int64_t a, int64_t b, Reduction reduction, ElementType type) {
  const bool sum_is_or = type == ElementType::boolean;
  switch (reduction) {
    case Reduction::sum:
    case Reduction::average:
      return sum_is_or ? a | b : a + b;
    case Reduction::product:
      return a * b;
    case Reduction::min:
      return std::min(a, b);
    case Reduction::max:
      return std::max(a, b);
    case Reduction::bit_and:
      return a & b;
    case Reduction::bit_or:
      return a | b;
    case Reduction::bit_xor:
      return a ^ b;
    case Reduction::logical_and:
      return a != 0 && b != 0;
    case Reduction::logical_or:
      return a != 0 || b != 0;
    case Reduction::logical_xor:
      return (a != 0) != (b != 0);
  }
  throw InternalError("self-test: a reduction that it does not know");
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
    int64_t result = 0;
    for (int rank = 0; rank < size; ++rank) {
      given.set(0, static_cast<double>(part_at(i, reduction, rank, size)));
      const auto number = static_cast<int64_t>(given.get(0));  // as the type holds it
      result = rank == 0 ? number : combined(result, number, reduction, type);
    }
    if (is_logical(reduction)) result = result != 0;
    first.set(i, reduction == Reduction::average ? static_cast<double>(result) / size : static_cast<double>(result));
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

std::string Elements::difference(const Elements& got, const std::string& where, double tolerance) const {
  if (bytes_ == got.bytes_) return "";
  const auto agree = [&](int64_t i) { return std::abs(got.get(i) - get(i)) <= tolerance * std::abs(get(i)); };
  int64_t i = 0;
  while (i < std::min(count_, got.count_) && agree(i)) ++i;
  if (i == count_ && i == got.count_) return "";
  std::ostringstream text;
  text << name(type_) << " x " << count_ << (where.empty() ? "" : ", ") << where << ": ";
  if (count_ != got.count_)
    text << "got " << got.count_ << " elements";
  else
    text << "expected " << get(i) << " at element " << i << ", got " << got.get(i);
  return text.str();
}

}  // namespace adjoin::self_test_detail
