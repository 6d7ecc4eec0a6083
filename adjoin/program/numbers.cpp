#include "adjoin/program/numbers.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "adjoin/base/error.hpp"

namespace adjoin::program {
namespace {

using c10::IValue;
using Numbers = std::vector<IValue>;

bool are_integers(const Numbers& x) {
  return x[0].isInt() && x[1].isInt();
}
bool holds(const IValue& x) {
  return x.isBool() ? x.toBool() : x.toScalar().toDouble() != 0;
}
double real_number(const IValue& x) {
  require(x.isScalar(), "expected a number");
  return x.toScalar().toDouble();
}
int64_t whole_number(const IValue& x) {
  require(x.isInt() || x.isBool(), "expected a whole number");
  return x.isInt() ? x.toInt() : static_cast<int64_t>(x.toBool());
}

template <auto OfIntegers, class OfReals>
IValue either(const Numbers& x) {
  if (!are_integers(x)) return OfReals()(real_number(x[0]), real_number(x[1]));
  int64_t result = 0;
  require(!OfIntegers(x[0].toInt(), x[1].toInt(), &result), "a size is beyond 2^63 - 1");
  return result;
}
constexpr auto kAdd = [](auto... n) { return __builtin_add_overflow(n...); };
constexpr auto kSub = [](auto... n) { return __builtin_sub_overflow(n...); };
constexpr auto kMul = [](auto... n) { return __builtin_mul_overflow(n...); };

int64_t floor_quotient(int64_t a, int64_t b) {
  require(b != 0 && !(a == INT64_MIN && b == -1), "a size is divided by zero");
  return a / b - static_cast<int64_t>(a % b != 0 && (a < 0) != (b < 0));
}
IValue floordiv(const Numbers& x) {
  if (are_integers(x)) return floor_quotient(x[0].toInt(), x[1].toInt());
  require(real_number(x[1]) != 0, "a size is divided by zero");
  return std::floor(real_number(x[0]) / real_number(x[1]));
}
IValue mod(const Numbers& x) {
  const int64_t a = whole_number(x[0]), b = whole_number(x[1]);
  return a - floor_quotient(a, b) * b;
}
IValue truediv(const Numbers& x) {
  require(real_number(x[1]) != 0, "a size is divided by zero");
  return real_number(x[0]) / real_number(x[1]);
}
IValue pow(const Numbers& x) {
  const double power = std::pow(real_number(x[0]), real_number(x[1]));
  if (!are_integers(x) || x[1].toInt() < 0) return power;
  require(std::abs(power) <= 0x1p53, "a size is beyond 2^53");
  return static_cast<int64_t>(power);
}
IValue neg(const Numbers& x) {
  return x[0].isInt() ? either<kSub, std::minus<>>({int64_t{0}, x[0]}) : IValue(-real_number(x[0]));
}
IValue to_integer(const Numbers& x) {
  if (x[0].isInt() || x[0].isBool()) return whole_number(x[0]);
  require(std::abs(real_number(x[0])) < 0x1p63, "a size is beyond 2^63 - 1");
  return static_cast<int64_t>(real_number(x[0]));
}
IValue root(const Numbers& x) {
  require(real_number(x[0]) >= 0, "a size below zero has no root");
  return std::sqrt(real_number(x[0]));
}
IValue both(const Numbers& x) {
  return are_integers(x) ? IValue(x[0].toInt() & x[1].toInt()) : IValue(holds(x[0]) && holds(x[1]));
}
IValue any(const Numbers& x) {
  return are_integers(x) ? IValue(x[0].toInt() | x[1].toInt()) : IValue(holds(x[0]) || holds(x[1]));
}
template <class Compare>
IValue compared(const Numbers& x) {
  return are_integers(x) ? Compare()(x[0].toInt(), x[1].toInt()) : Compare()(real_number(x[0]), real_number(x[1]));
}

const std::map<std::string_view, NumberOperation> kOperations{
    {"_operator.add", {either<kAdd, std::plus<>>, 2}},
    {"_operator.sub", {either<kSub, std::minus<>>, 2}},
    {"_operator.mul", {either<kMul, std::multiplies<>>, 2}},
    {"_operator.floordiv", {floordiv, 2}},
    {"_operator.mod", {mod, 2}},
    {"_operator.truediv", {truediv, 2}},
    {"_operator.pow", {pow, 2}},
    {"_operator.neg", {neg, 1}},
    {"_operator.pos", {[](const Numbers& x) { return x[0]; }, 1}},
    {"_operator.eq", {compared<std::equal_to<>>, 2}},
    {"_operator.ne", {compared<std::not_equal_to<>>, 2}},
    {"_operator.lt", {compared<std::less<>>, 2}},
    {"_operator.le", {compared<std::less_equal<>>, 2}},
    {"_operator.gt", {compared<std::greater<>>, 2}},
    {"_operator.ge", {compared<std::greater_equal<>>, 2}},
    {"_operator.and_", {both, 2}},
    {"_operator.or_", {any, 2}},
    {"math.trunc", {to_integer, 1}},
    {"torch.sym_int", {to_integer, 1}},
    {"torch.sym_float", {[](const Numbers& x) -> IValue { return real_number(x[0]); }, 1}},
    {"torch.sym_not", {[](const Numbers& x) -> IValue { return !holds(x[0]); }, 1}},
    {"torch.sym_ite", {[](const Numbers& x) { return holds(x[0]) ? x[1] : x[2]; }, 3}},
    {"torch.sym_max", {[](const Numbers& x) { return compared<std::less<>>(x).toBool() ? x[1] : x[0]; }, 2}},
    {"torch.sym_min", {[](const Numbers& x) { return compared<std::less<>>(x).toBool() ? x[0] : x[1]; }, 2}},
    {"torch.sym_sqrt", {root, 1}},
    {"torch._sym_sqrt", {root, 1}},
};

}  // namespace

NumberOperation number_operation(std::string_view target) {
  const auto found = kOperations.find(target);
  return found == kOperations.end() ? NumberOperation{} : found->second;
}

}  // namespace adjoin::program
