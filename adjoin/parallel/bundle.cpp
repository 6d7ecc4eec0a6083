#include "adjoin/parallel/bundle.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin::parallel {
namespace {

std::string text_of(const ItemSpec& item) {
  return (item.name.empty() ? "a tensor" : '"' + item.name + '"') + " " + shape_text(item.sizes) + " " +
         c10::toString(item.type.value());
}

std::string text_of(const ItemSpec* item) {
  return item ? text_of(*item) : "no more tensors";
}

}  // namespace

Bundle::Bundle(const at::Tensor& only) {
  if (only.defined()) items_.push_back({"", only});
}

Bundle::Bundle(std::vector<Item> items) : items_(std::move(items)) {
  for (const Item& item : items_) {
    require(item.tensor.defined(),
            [&] { return "bundle: expected tensors, got an undefined one as \"" + item.name + '"'; });
    require(std::ranges::count(items_, item.name, &Item::name) == 1,
            [&] { return "bundle: expected each name once, got " + names(); });
  }
}

Bundle::operator const at::Tensor&() const {
  static const at::Tensor kNone;
  require(size() <= 1, [&] { return "bundle: expected a single tensor, got " + names(); });
  return items_.empty() ? kNone : items_[0].tensor;
}

const at::Tensor& Bundle::operator[](std::string_view name) const {
  const auto found = std::ranges::find(items_, name, &Item::name);
  require(found != items_.end(),
          [&] { return "bundle: expected a tensor \"" + std::string(name) + "\", got " + names(); });
  return found->tensor;
}

Bundle Bundle::with(std::string_view name, const at::Tensor& tensor) const {
  std::vector<Item> items = items_;
  const auto found = std::ranges::find(items, name, &Item::name);
  if (found != items.end())
    found->tensor = tensor;
  else
    items.push_back({std::string(name), tensor});
  return items;
}

std::string Bundle::names() const {
  std::vector<std::string> quoted;
  for (const Item& item : items_) quoted.push_back('"' + item.name + '"');
  return quoted.empty() ? "none" : joined(quoted);
}

BundleSpec spec_of(const Bundle& bundle) {
  BundleSpec spec;
  for (const auto& [name, tensor] : bundle.items())
    spec.items.push_back(
        {name, tensor.sizes().vec(), tensor.scalar_type(), at::GradMode::is_enabled() && tensor.requires_grad()});
  return spec;
}

void check_fits(const BundleSpec& given, const BundleSpec& expected, const std::string& sender,
                const std::string& receiver) {
  for (size_t i = 0; i < std::max(given.items.size(), expected.items.size()); ++i) {
    const ItemSpec* found = i < given.items.size() ? &given.items[i] : nullptr;
    const ItemSpec* wanted = i < expected.items.size() ? &expected.items[i] : nullptr;
    require(
        found && wanted && found->name == wanted->name && found->sizes == wanted->sizes && found->type == wanted->type,
        [&] { return sender + " gives " + text_of(found) + ", and " + receiver + " expects " + text_of(wanted); });
    require(!found->has_gradient || wanted->has_gradient, [&] {
      return sender + " gives " + text_of(found) + ", which requires a gradient, and " + receiver +
             " expects one that does not";
    });
  }
}

std::vector<int64_t> numbers_of(const BundleSpec& spec) {
  std::vector<int64_t> numbers;
  for (const auto& [name, sizes, type, has_gradient] : spec.items) {
    numbers.insert(numbers.end(),
                   {static_cast<int64_t>(type.value()), has_gradient, std::ssize(sizes), std::ssize(name)});
    numbers.insert(numbers.end(), sizes.begin(), sizes.end());
    numbers.insert(numbers.end(), name.begin(), name.end());
  }
  return numbers;
}

BundleSpec spec_from(std::span<const int64_t> numbers) {
  BundleSpec spec;
  for (auto next = numbers.begin(); next != numbers.end();) {
    const auto type = static_cast<at::ScalarType>(*next++);
    const bool has_gradient = *next++ != 0;
    const int64_t dims = *next++, letters = *next++;
    const auto name = next + dims, end = name + letters;
    spec.items.push_back({{name, end}, {next, name}, type, has_gradient});
    next = end;
  }
  return spec;
}

}  // namespace adjoin::parallel
