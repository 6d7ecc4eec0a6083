#pragma once

#include <torch/enum.h>
#include <torch/expanding_array.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "python/bindings/bindings.hpp"

namespace adjoin::python {

/// The options of a layer by the names of their arguments in torch.nn; all are given, the defaults too.
class Given {
 public:
  Given(std::string layer, py::dict options) : layer_(std::move(layer)), options_(std::move(options)) {}

  /// Throws: InvalidArgument that names the layer and the option
  template <class T>
  T get(const char* name) const {
    try {
      return options_[name].cast<T>();
    } catch (const py::cast_error&) {
      throw InvalidArgument(layer_ + ": " + name + " cannot be " + std::string(py::repr(options_[name])));
    }
  }
  bool has(const char* name) const { return options_.contains(name); }
  bool is_none(const char* name) const { return options_[name].is_none(); }
  /// Of D dims: one number for all, or one each.
  template <size_t D>
  torch::ExpandingArray<D> each(const char* name) const {
    if (py::isinstance<py::int_>(options_[name])) return torch::ExpandingArray<D>(get<int64_t>(name));
    const auto sizes = get<std::vector<int64_t>>(name);
    require(sizes.size() == D, [&] {
      return layer_ + ": " + name + ": expected " + std::to_string(D) + " numbers, got " + std::to_string(sizes.size());
    });
    std::array<int64_t, D> of_dims{};
    std::ranges::copy(sizes, of_dims.begin());
    return torch::ExpandingArray<D>(of_dims);
  }
  /// The same with None for some dims, or for all.
  template <size_t D>
  torch::ExpandingArrayWithOptionalElem<D> each_or_none(const char* name) const {
    using Sizes = std::vector<std::optional<int64_t>>;
    const bool is_one = is_none(name) || py::isinstance<py::int_>(options_[name]);
    const Sizes sizes = is_one ? Sizes(D, maybe<int64_t>(name)) : get<Sizes>(name);
    require(sizes.size() == D, [&] { return layer_ + ": " + name + ": expected " + std::to_string(D) + " numbers"; });
    return torch::ExpandingArrayWithOptionalElem<D>(sizes);
  }
  /// A number is one of one dim.
  std::vector<int64_t> sizes(const char* name) const {
    if (py::isinstance<py::int_>(options_[name])) return {get<int64_t>(name)};
    return get<std::vector<int64_t>>(name);
  }
  std::optional<std::string> maybe_text(const char* name) const {
    return py::isinstance<py::str>(options_[name]) ? std::optional(get<std::string>(name)) : std::nullopt;
  }
  at::Tensor tensor(const char* name) const { return is_none(name) ? at::Tensor() : get<at::Tensor>(name); }
  template <class T>
  std::optional<T> maybe(const char* name) const {
    return is_none(name) ? std::nullopt : std::optional<T>(get<T>(name));
  }
  /// One of LibTorch's choices, by its name.
  template <class Variant, class... Choices>
  Variant choice(const char* name, std::pair<const char*, Choices>... choices) const {
    std::optional<Variant> found;
    const auto text = get<std::string>(name);
    ((text == choices.first ? static_cast<void>(found.emplace(choices.second)) : void()), ...);
    require(found.has_value(), [&] { return layer_ + ": " + name + ": '" + text + "' is not supported"; });
    return *found;
  }
  template <class Options>
  typename Options::reduction_t reduction() const {
    using Variant = typename Options::reduction_t;
    if constexpr (std::is_constructible_v<Variant, torch::enumtype::kBatchMean>) {
      if (get<std::string>("reduction") == "batchmean") return torch::kBatchMean;
    }
    return choice<Variant>("reduction", std::pair("none", torch::kNone), std::pair("sum", torch::kSum),
                           std::pair("mean", torch::kMean));
  }

 private:
  std::string layer_;
  py::dict options_;
};

}  // namespace adjoin::python
