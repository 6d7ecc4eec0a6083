#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace adjoin::parallel {

/// The tensors that go from one stage of a pipeline to the next, in order, each with a name:
///
///     [&](int, int, const Bundle& in) { return in.with("x", block(in["x"], in["mask"])); }  // the mask goes on to the next stage
///
/// A bundle of one tensor converts to it and from it, so that a stage with a single tensor takes and returns an at::Tensor, which
/// has no name. An undefined tensor is a bundle of none.
class Bundle {
 public:
  struct Item {
    std::string name;
    at::Tensor tensor;
  };

  Bundle() = default;
  Bundle(const at::Tensor& only);
  /// Throws: InvalidArgument for an undefined tensor, or a name that comes twice
  Bundle(std::vector<Item> items);
  Bundle(std::initializer_list<Item> items) : Bundle(std::vector<Item>(items)) {}

  /// Throws: InvalidArgument, with the names of all, if there are several
  operator const at::Tensor&() const;
  /// Throws: InvalidArgument, with the names of all, where there is none of this name
  const at::Tensor& operator[](std::string_view name) const;
  /// This bundle with another tensor in the place of that of the same name, or at its end.
  Bundle with(std::string_view name, const at::Tensor& tensor) const;

  const std::vector<Item>& items() const { return items_; }
  size_t size() const { return items_.size(); }

 private:
  std::string names() const;

  std::vector<Item> items_;
};

/// What the rank of the next stage must know of a tensor before it comes.
struct ItemSpec {
  std::string name;
  std::vector<int64_t> sizes;
  std::optional<at::ScalarType> type = {};  ///< PipelineWork::output if none is given
  bool has_gradient = true;                 ///< which comes back from the next stage; integers have none
};

/// The same of all tensors of a bundle in order; of a single one without a name, its sizes are enough.
struct BundleSpec {
  BundleSpec() = default;
  BundleSpec(std::vector<int64_t> sizes) : items{{.name = "", .sizes = std::move(sizes)}} {}
  BundleSpec(std::vector<ItemSpec> items) : items(std::move(items)) {}
  BundleSpec(std::initializer_list<ItemSpec> items) : items(items) {}

  std::vector<ItemSpec> items;
};

/// What a bundle is. A tensor has a gradient if it requires one and gradients are recorded.
BundleSpec spec_of(const Bundle& bundle);

/// Throws: InvalidArgument, "SENDER gives "mask" [3] Long, and RECEIVER expects "mask" [4] Long", at the first tensor that has another
///         name, other sizes or another type than expected, or a gradient which is not
void check_fits(const BundleSpec& given, const BundleSpec& expected, const std::string& sender,
                const std::string& receiver);

/// A specification as numbers, in which it travels.
std::vector<int64_t> numbers_of(const BundleSpec& spec);
BundleSpec spec_from(std::span<const int64_t> numbers);

}  // namespace adjoin::parallel
