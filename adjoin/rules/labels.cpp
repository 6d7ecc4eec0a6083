#include <algorithm>
#include <numeric>
#include <optional>

#include "adjoin/partition/without_dims.hpp"
#include "adjoin/rules/operation.hpp"

namespace adjoin::rules {
namespace {

/// One cut of a label.
struct LabelCut {
  int label;
  Layout::Cut cut;
  bool operator==(const LabelCut&) const = default;
};
using Choice = std::vector<const LabelCut*>;

bool has(const std::vector<int>& labels, int label) {
  return std::ranges::find(labels, label) != labels.end();
}

const LabelCut* layout_cut_along(const Choice& choice, const std::string& axis) {
  for (const LabelCut* cut : choice)
    if (std::ranges::find(cut->cut.axes, axis) != cut->cut.axes.end()) return cut;
  return nullptr;
}

/// All cuts of labels that some operand has and that are allowed; only those of the first operand if it is written in place.
std::vector<LabelCut> candidates(const Labels& labels, const Operation& operation) {
  std::vector<LabelCut> all;
  for (size_t i = 0; i < operation.operands.size() && (i == 0 || !operation.is_in_place); ++i)
    for (const Layout::Cut& cut : operation.operands[i].layout.cuts()) {
      if (cut.axes.empty()) continue;
      const int label = labels.operands[i][static_cast<size_t>(cut.split.dim())];
      LabelCut found{label, {cut.split.along(0), cut.axes}};
      if (label != Labels::kOne && !labels.whole.contains(label) && std::ranges::find(all, found) == all.end())
        all.push_back(std::move(found));
    }
  return all;
}

/// Which of them can be together: none has a label or an axis of another.
bool fit_together(const Choice& choice) {
  std::set<int> labels;
  std::set<std::string> axes;
  size_t count = 0;
  for (const LabelCut* cut : choice) {
    labels.insert(cut->label);
    axes.insert(cut->cut.axes.begin(), cut->cut.axes.end());
    count += cut->cut.axes.size();
  }
  return labels.size() == choice.size() && axes.size() == count;
}

class Chosen {
 public:
  Chosen(const Labels& labels, const Operation& operation, const Choice& choice)
      : labels_(labels), operation_(operation), choice_(choice) {}

  Way way() const {
    Way way;
    for (size_t i = 0; i < operation_.operands.size(); ++i) way.reads.push_back(read(i));
    for (const std::vector<int>& result : labels_.results) way.makes.push_back(made(result));
    way.work = work();
    return way;
  }

 private:
  /// The kind along an axis that cuts nothing, of all operands and results.
  Kind common(const std::string& axis) const {
    bool copied = true, partial = true, any_partial = false;
    for (const Operand& operand : operation_.operands) {
      if (operand.is_constant) continue;
      copied = copied && operand.layout.kind(axis) == Kind::copied;
      partial = partial && operand.layout.kind(axis) == Kind::partial;
      any_partial = any_partial || operand.layout.kind(axis) == Kind::partial;
    }
    if (operation_.is_in_place) {
      const Kind kind = operation_.operands[0].layout.kind(axis);
      return kind == Kind::partial && !labels_.is_linear && !stays_partial(axis) ? Kind::replicated : kind;
    }
    if (any_partial && partial && labels_.is_linear) return Kind::partial;
    if (stays_partial(axis)) return Kind::partial;
    return copied ? Kind::copied : Kind::replicated;
  }

  bool stays_partial(const std::string& axis) const {
    return labels_.linear_in && operation_.operands[*labels_.linear_in].layout.kind(axis) == Kind::partial;
  }
  bool is_factor(size_t operand) const { return labels_.linear_in && *labels_.linear_in != operand; }

  Layout laid_out(const std::vector<int>& labels, std::vector<int64_t> shape, bool is_result, bool is_summand,
                  bool is_factor) const {
    std::vector<Layout::Cut> cuts;
    std::map<std::string, Kind> kinds;
    for (size_t dim = 0; dim < labels.size(); ++dim)
      for (const LabelCut* cut : choice_)
        if (cut->label == labels[dim]) cuts.push_back({cut->cut.split.along(static_cast<int64_t>(dim)), cut->cut.axes});
    for (const GridShape::Axis& axis : operation_.home.grid.shape().axes()) {
      const LabelCut* cut = layout_cut_along(choice_, axis.name);
      if (cut == nullptr)
        kinds[axis.name] = is_factor && stays_partial(axis.name) ? Kind::copied : common(axis.name);
      else if (!has(labels, cut->label))
        kinds[axis.name] = is_result || (is_summand && is_summed(cut->label)) ? Kind::partial : Kind::copied;
    }
    return Layout(operation_.home.grid.shape(), std::move(shape), std::move(cuts), std::move(kinds));
  }
  bool is_summed(int label) const {
    return std::ranges::none_of(labels_.results, [&](const auto& result) { return has(result, label); });
  }
  Layout read(size_t operand) const {
    return laid_out(labels_.operands[operand], operation_.operands[operand].layout.shape(), false,
                    labels_.summands.contains(operand), is_factor(operand));
  }
  Layout made(const std::vector<int>& result) const {
    std::vector<int64_t> shape;
    for (const int label : result) shape.push_back(label == Labels::kOne ? 1 : size_of(label));
    return laid_out(result, std::move(shape), true, false, false);
  }
  int64_t size_of(int label) const {
    if (const auto known = labels_.sizes.find(label); known != labels_.sizes.end()) return known->second;
    int64_t size = 1;
    for (size_t i = 0; i < labels_.operands.size(); ++i)
      for (size_t dim = 0; dim < labels_.operands[i].size(); ++dim)
        if (labels_.operands[i][dim] == label) size = operation_.operands[i].layout.shape()[dim];
    return size;
  }
  /// Elements of the space of all labels that the largest part has.
  double work() const {
    std::set<int> all;
    for (const auto* tensors : {&labels_.operands, &labels_.results})
      for (const std::vector<int>& tensor : *tensors) all.insert(tensor.begin(), tensor.end());
    all.erase(Labels::kOne);
    double elements = 1;
    for (const int label : all) {
      int64_t size = size_of(label);
      for (const LabelCut* cut : choice_)
        if (cut->label == label) size = std::ranges::max(cut->cut.split.sizes());
      elements *= static_cast<double>(size);
    }
    return elements;
  }

  const Labels& labels_;
  const Operation& operation_;
  const Choice& choice_;
};

}  // namespace

std::vector<Way> labelled(const Labels& labels, const Operation& operation) {
  const std::vector<LabelCut> cuts = candidates(labels, operation);
  constexpr size_t kMost = 6;  // then 64 ways
  const size_t count = std::min(cuts.size(), kMost);
  std::vector<Way> ways;
  for (size_t left_out = 0; left_out < size_t{1} << count; ++left_out) {  // the first way has all cuts
    if (operation.is_in_place && left_out != 0) break;
    Choice choice;
    for (size_t i = 0; i < count; ++i)
      if ((left_out >> i & 1) == 0) choice.push_back(&cuts[i]);
    if (fit_together(choice)) ways.push_back(Chosen(labels, operation, choice).way());
  }
  return ways;
}

std::vector<int> numbered(int64_t dims, int first) {
  std::vector<int> labels(static_cast<size_t>(dims));
  std::iota(labels.begin(), labels.end(), first);
  return labels;
}

std::vector<int> broadcast_labels(const std::vector<int64_t>& dims, const std::vector<int64_t>& shape,
                                  const std::vector<int>& labels) {
  std::vector<int> result;
  const size_t missing = shape.size() - dims.size();
  for (size_t dim = 0; dim < dims.size(); ++dim)
    result.push_back(dims[dim] == shape[missing + dim] ? labels[missing + dim] : Labels::kOne);
  return result;
}

bool is_cut(const Layout& layout, int64_t dim) {
  return !layout.cuts()[static_cast<size_t>(dim)].axes.empty();
}

Layout reshaped(const Layout& layout, std::vector<int64_t> shape, const std::vector<int64_t>& from) {
  std::vector<Layout::Cut> cuts;
  std::map<std::string, Kind> kinds = layout.kinds();
  std::set<int64_t> kept(from.begin(), from.end());
  for (size_t dim = 0; dim < from.size(); ++dim)
    if (from[dim] >= 0)
      if (const Layout::Cut& cut = layout.cuts()[static_cast<size_t>(from[dim])]; !cut.axes.empty())
        cuts.push_back({cut.split.along(static_cast<int64_t>(dim)), cut.axes});
  for (const Layout::Cut& cut : layout.cuts())
    if (!cut.axes.empty() && !kept.contains(cut.split.dim()))
      for (const std::string& axis : cut.axes) kinds[axis] = Kind::replicated;
  return Layout(layout.grid(), std::move(shape), std::move(cuts), std::move(kinds));
}

Layout whole_along(const Layout& layout, const std::vector<int64_t>& dims) {
  std::vector<int64_t> from(static_cast<size_t>(layout.dims()));
  std::iota(from.begin(), from.end(), 0);
  for (const int64_t dim : dims) from[static_cast<size_t>(dim)] = -1;
  return reshaped(layout, layout.shape(), from);
}

std::vector<std::pair<Layout, Layout>> sums_over(const Layout& x, const std::vector<int64_t>& dims) {
  const Layout summands = without_dims(x, dims, Kind::partial), sums = nn::summed(summands);
  if (summands == sums) return {};
  return std::vector(4, std::pair(summands, sums));
}

std::vector<Way> without_empty_calls(std::vector<Way> ways, const Operation& operation) {
  for (Way& way : ways) {
    const std::vector<int64_t> shape = way.makes[0].shape_on(operation.home.rank);
    if (std::ranges::find(shape, 0) != shape.end())
      way.kernel = [shape](Arguments arguments) {
        return std::vector<at::Tensor>{arguments[0].toTensor().new_zeros(shape)};
      };
  }
  return ways;
}

bool is_cut_in(const Layout& layout, size_t first, size_t end) {
  return std::any_of(layout.cuts().begin() + static_cast<ptrdiff_t>(first),
                     layout.cuts().begin() + static_cast<ptrdiff_t>(end),
                     [](const Layout::Cut& cut) { return !cut.axes.empty(); });
}

std::vector<Way> as_it_lies(const Operation& operation, std::vector<Layout> makes) {
  Way way;
  for (const Operand& operand : operation.operands) way.reads.push_back(operand.layout);
  way.makes = std::move(makes);
  return {std::move(way)};
}

}  // namespace adjoin::rules
