#include "adjoin/program/declared.hpp"

#include <algorithm>
#include <array>

#include "adjoin/base/text.hpp"

namespace adjoin::program {

at::ScalarType element_type(const Json& number) {
  constexpr std::pair<int, at::ScalarType> kTypes[] = {
      {1, at::kByte},          {2, at::kChar},           {3, at::kShort}, {4, at::kInt},
      {5, at::kLong},          {6, at::kHalf},           {7, at::kFloat}, {8, at::kDouble},
      {10, at::kComplexFloat}, {11, at::kComplexDouble}, {12, at::kBool}, {13, at::kBFloat16}};
  const int64_t wanted = integer(number);
  for (const auto& [serialized, type] : kTypes)
    if (serialized == wanted) return type;
  throw InvalidArgument("elements of the type " + std::to_string(wanted) + " are not supported");
}

Size size_of(const Json& json) {
  const auto& [kind, value] = only(json);
  if (kind == "as_int") return {.example = integer(value), .is_fixed = true};
  require(kind == "as_expr", "a size is neither a number nor an expression");
  Size size;
  const std::string expression = text(value, "expr_str");
  constexpr std::string_view kSymbol = "Symbol('";
  const size_t end = expression.find('\'', kSymbol.size());
  if (expression.starts_with(kSymbol) && end != expression.npos && std::ranges::count(expression, '(') == 1)
    size.symbol = expression.substr(kSymbol.size(), end - kSymbol.size());
  if (const Json* hint = find(value, "hint", "as_int")) size.example = integer(*hint);
  return size;
}

TensorSpec tensor_spec(const Json& json) {
  TensorSpec spec{.type = element_type(object(json, "dtype")), .sizes = {}, .strides = {}};
  for (const Json& size : list(json, "sizes")) spec.sizes.push_back(size_of(size));
  for (const Json& stride : list(json, "strides"))
    if (const auto known = size_of(stride).example) spec.strides.push_back(*known);
  if (spec.strides.size() != spec.sizes.size()) spec.strides.clear();
  require(integer(object(json, "layout")) == 7, "a tensor is not strided");
  return spec;
}

std::optional<std::vector<int64_t>> example_sizes(const TensorSpec& spec) {
  std::vector<int64_t> sizes;
  for (const Size& size : spec.sizes) {
    if (!size.example) return std::nullopt;
    require(*size.example >= 0, "a declared size is below zero");
    sizes.push_back(*size.example);
  }
  return sizes;
}

std::vector<std::string> size_texts(const TensorSpec& spec) {
  std::vector<std::string> texts;
  for (const Size& size : spec.sizes)
    texts.push_back(size.is_fixed ? std::to_string(*size.example) : size.symbol.empty() ? "?" : size.symbol);
  return texts;
}

std::string to_string(const TensorSpec& spec) {
  return std::string(c10::toString(spec.type)) + " [" + joined(size_texts(spec)) + "]";
}

}  // namespace adjoin::program
