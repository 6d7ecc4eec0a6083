#include "adjoin/lab/elements.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "adjoin/base/with_type.hpp"

namespace adjoin::lab {

namespace {

template <class T>
T element_from(double number) {
  if constexpr (std::is_same_v<T, Float16>)
    return to_float16(static_cast<float>(number));
  else if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(static_cast<float>(number));
  else if constexpr (std::is_same_v<T, bool>)
    return std::fmod(number, 2) != 0;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<int64_t>(number));
  else
    return static_cast<T>(number);
}

template <class T>
double number_from(T element) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    return to_float(element);
  else
    return static_cast<double>(element);
}

}  // namespace

Elements::Elements(ElementType t, const Values& values)
    : type(t), bytes(values.size() * static_cast<size_t>(size_of(t))) {
  with_type(type, [&](auto element) {
    for (size_t i = 0; i < values.size(); ++i) {
      element = element_from<decltype(element)>(values[i]);
      std::memcpy(bytes.data() + i * sizeof element, &element, sizeof element);
    }
  });
}

Values Elements::values() const {
  Values values(static_cast<size_t>(count()));
  with_type(type, [&](auto element) {
    for (size_t i = 0; i < values.size(); ++i) {
      std::memcpy(&element, bytes.data() + i * sizeof element, sizeof element);
      values[i] = number_from(element);
    }
  });
  return values;
}

std::string difference(const Elements& expected, const Elements& got, const std::string& where, double tolerance) {
  if (expected == got) return "";
  const Values wanted = expected.values(), came = got.values();
  const auto [there, here] =
      std::mismatch(wanted.begin(), wanted.end(), came.begin(), came.end(),
                    [&](double a, double b) { return std::abs(b - a) <= tolerance * std::abs(a); });
  if (there == wanted.end() && here == came.end()) return "";
  std::ostringstream text;
  text << name(expected.type) << " x " << wanted.size() << (where.empty() ? "" : ", ") << where << ": ";
  if (wanted.size() != came.size())
    text << "got " << came.size() << " elements";
  else
    text << "expected " << *there << " at element " << there - wanted.begin() << ", got " << *here;
  return text.str();
}

}  // namespace adjoin::lab
