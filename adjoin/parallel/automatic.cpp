#include "adjoin/parallel/automatic.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "adjoin/base/error.hpp"
#include "adjoin/lab/silent_backend.hpp"
#include "adjoin/movement/intercept.hpp"
#include "adjoin/parallel/cut_layers.hpp"
#include "adjoin/rules/estimate.hpp"
#include "adjoin/rules/noted.hpp"

namespace adjoin::parallel {
namespace {

using rules::Cost;
using rules::Estimate;

/// A grid of these axes whose other workers do not exist: what rules prepare on it sends nothing.
Grid silent(const GridShape& shape) {
  require(!shape.axes().empty(), "automatic: expected a grid with an axis over which something can be cut, got none");
  const int world = *std::ranges::max_element(shape.ranks()) + 1;
  return {Communicator(std::make_shared<lab::SilentBackend>(shape.rank_of(0), world)), shape};
}

rules::Noted noted(const std::vector<NamedTensor>& named, const std::vector<at::Tensor>& inputs,
                   const std::function<void()>& code) {
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& tensor : named) {
    require(!is_intercepted(tensor.tensor), [&] {
      return "automatic: expected plain parameters, got " + tensor.name + ", which is global or marked already";
    });
    tensors.push_back(tensor.tensor);
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    require(!is_intercepted(inputs[i]), [&] {
      return "automatic: expected plain example inputs, got input " + std::to_string(i) + ", which is global already";
    });
  const auto failed = [](std::string why) {
    return InvalidArgument("automatic: expected a module that computes the example; it fails: " +
                           why.substr(0, why.find('\n')));
  };
  try {
    return rules::noted(tensors, inputs, code);
  } catch (const c10::Error& error) {
    throw failed(error.what_without_backtrace());
  } catch (const std::exception& error) {
    throw failed(error.what());
  }
}

/// The axes over which weights are cut: those with several workers.
std::vector<std::string> axes_of_weights(const GridShape& grid, const std::vector<std::string>& over) {
  for (const std::string& axis : over) grid.axis_index(axis);
  std::vector<std::string> axes;
  for (const GridShape::Axis& axis : grid.axes())
    if (axis.size > 1 && (over.empty() || std::ranges::find(over, axis.name) != over.end())) axes.push_back(axis.name);
  return axes;
}

/// Each list with each of the choices behind it.
std::vector<std::vector<CutText>> longer_by(const std::vector<std::vector<CutText>>& lists,
                                            const std::vector<CutText>& choices) {
  std::vector<std::vector<CutText>> longer;
  for (const std::vector<CutText>& list : lists)
    for (const CutText& choice : choices) {
      longer.push_back(list);
      longer.back().push_back(choice);
    }
  return longer;
}

/// Of costs that are equal but for rounding, what is found first is kept.
bool is_less(double a, double b) {
  return a < b * (1 - 1e-9);
}

}  // namespace

class CutSearch::State {
 public:
  State(std::vector<NamedTensor> tensors, const GridShape& grid, const std::vector<at::Tensor>& inputs,
        const std::function<void()>& code, AutomaticOptions options)
      : tensors_(std::move(tensors)),
        grid_(grid),
        options_(std::move(options)),
        estimate_(noted(tensors_, inputs, code), silent(grid), options_.move, options_.computed) {
    require(options_.inputs.size() <= inputs.size(), [&] {
      return "automatic: expected cuts of at most the " + std::to_string(inputs.size()) +
             " inputs of the example, got " + std::to_string(options_.inputs.size());
    });
    for (const at::Tensor& input : inputs) input_shapes_.push_back(input.sizes().vec());
    for (const CutLayers& layers :
         cut_layers(tensors_, estimate_.noted(), axes_of_weights(grid, options_.weights_over)))
      layers_.push_back(numbered(layers));
  }

  Cuts best() {
    std::vector<std::vector<CutText>> of_inputs{{}};
    for (const std::vector<CutText>& choices : options_.inputs)
      of_inputs = longer_by(of_inputs, choices.empty() ? std::vector<CutText>{""} : choices);
    std::optional<Found> best;
    Cuts cuts;
    for (std::vector<CutText>& inputs : of_inputs) {
      while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
      begin_with(inputs);
      for (const size_t first : {size_t{0}, size_t{1}, std::numeric_limits<size_t>::max()}) {
        Found found;
        for (const Layers& layers : layers_) found.choices.push_back(std::min(first, layers.texts.size() - 1));
        found.cost = cost_of(found.choices);
        while (improve(found, 1) || improve(found, 2)) {
        }
        if (best && !is_less(found.cost, best->cost)) continue;
        best = found;
        cuts.inputs = inputs;
      }
    }
    for (size_t i = 0; i < layers_.size(); ++i)
      if (const CutText& text = layers_[i].texts[best->choices[i]]; !text.empty())
        for (const std::string& pattern : layers_[i].patterns) cuts.weights.emplace_back(pattern, text);
    return cuts;
  }

  Cost cost(const Cuts& cuts) {
    begin_with(cuts.inputs);
    const std::vector<Layout> layouts = layouts_of(tensors_, grid_, cuts);
    for (size_t i = 0; i < layouts.size(); ++i) begin_[i] = estimate_.number_of(layouts[i]);
    const Cost cost = estimate_.of(begin_);
    require(std::isfinite(cost.moved),
            [&] { return "automatic: expected cuts that no operation refuses, got " + to_string(cuts); });
    return cost;
  }

 private:
  /// CutLayers and, for each text that fits, the layouts of their tensors.
  struct Layers {
    std::vector<std::string> patterns;
    std::vector<size_t> tensors;
    std::vector<CutText> texts;
    std::vector<std::vector<Estimate::Number>> layouts;
  };
  struct Found {
    std::vector<size_t> choices;  // of each of layers_
    double cost = 0;
  };

  Layout layout_of(size_t tensor, const CutText& cut) const {
    const auto& [name, weight, is_buffer] = tensors_[tensor];
    return cut_layout(cut, weight.sizes().vec(), grid_, is_buffer ? Kind::replicated : Kind::copied);
  }

  Layers numbered(const CutLayers& from) {
    Layers layers{from.patterns, from.tensors, {}, {}};
    for (const CutText& text : from.choices) {
      std::vector<Estimate::Number> layouts;
      try {
        for (const size_t tensor : from.tensors) layouts.push_back(estimate_.number_of(layout_of(tensor, text)));
      } catch (const InvalidArgument&) {
        continue;  // some tensor does not divide into these parts
      }
      if (std::ranges::find(layers.layouts, layouts) != layers.layouts.end()) continue;  // another text for the same
      layers.texts.push_back(text);
      layers.layouts.push_back(std::move(layouts));
    }
    return layers;
  }

  /// Inputs of these cuts, and whole weights.
  void begin_with(const std::vector<CutText>& inputs) {
    require(inputs.size() <= input_shapes_.size(), "automatic: expected cuts of no more inputs than the example has");
    begin_.clear();
    for (size_t i = 0; i < tensors_.size(); ++i) begin_.push_back(estimate_.number_of(layout_of(i, "")));
    for (size_t i = 0; i < inputs.size(); ++i)
      begin_.push_back(estimate_.number_of(cut_layout(inputs[i], input_shapes_[i], grid_, Kind::replicated)));
  }

  /// After begin_with. Infinite where an operation is refused.
  double cost_of(const std::vector<size_t>& choices) {
    for (size_t i = 0; i < layers_.size(); ++i)
      for (size_t tensor = 0; tensor < layers_[i].tensors.size(); ++tensor)
        begin_[layers_[i].tensors[tensor]] = layers_[i].layouts[choices[i]][tensor];
    return estimate_.of(begin_).total;
  }

  /// Changes the cuts of so many layers together to those of least cost. False where none costs less.
  bool improve(Found& found, int together) {
    Found best = found, tried = found;
    vary(found, tried, best, 0, layers_.size(), together);
    const bool is_better = is_less(best.cost, found.cost);
    found = std::move(best);
    return is_better;
  }
  /// Tries all other choices of `left` layers, the first of which is one of [first, end).
  void vary(const Found& found, Found& tried, Found& best, size_t first, size_t end, int left) {
    constexpr size_t kNear = 6;  // layers that are used one after another
    if (left == 0) {
      tried.cost = cost_of(tried.choices);
      if (is_less(tried.cost, best.cost)) best = tried;
      return;
    }
    for (size_t i = first; i < end; ++i) {
      for (size_t choice = 0; choice < layers_[i].texts.size(); ++choice) {
        if (choice == found.choices[i]) continue;
        tried.choices[i] = choice;
        vary(found, tried, best, i + 1, std::min(layers_.size(), i + 1 + kNear), left - 1);
      }
      tried.choices[i] = found.choices[i];
    }
  }

  const std::vector<NamedTensor> tensors_;
  const GridShape grid_;
  const AutomaticOptions options_;
  std::vector<std::vector<int64_t>> input_shapes_;
  Estimate estimate_;
  std::vector<Layers> layers_;
  std::vector<Estimate::Number> begin_;  // the layouts of the tensors, then of the inputs that are cut
};

CutSearch::CutSearch(std::vector<NamedTensor> tensors, const GridShape& grid, const std::vector<at::Tensor>& inputs,
                     const std::function<void()>& code, AutomaticOptions options)
    : state_(std::make_unique<State>(std::move(tensors), grid, inputs, code, std::move(options))) {}
CutSearch::~CutSearch() = default;

Cuts CutSearch::best() {
  return state_->best();
}
Cost CutSearch::cost(const Cuts& cuts) {
  return state_->cost(cuts);
}

std::string to_string(const Cuts& cuts) {
  std::string text = "{.weights = {";
  for (size_t i = 0; i < cuts.weights.size(); ++i)
    text +=
        (i > 0 ? ",\n             " : "") + ("{\"" + cuts.weights[i].first) + "\", \"" + cuts.weights[i].second + "\"}";
  text += "},\n .inputs = {";
  for (size_t i = 0; i < cuts.inputs.size(); ++i) text += (i > 0 ? ", \"" : "\"") + cuts.inputs[i] + "\"";
  return text + "}}\n";
}

}  // namespace adjoin::parallel
