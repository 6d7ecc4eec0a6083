#include "adjoin/parallel/cut_layers.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <map>
#include <utility>

#include "adjoin/parallel/dim_choices.hpp"

namespace adjoin::parallel {
namespace {

using rules::Noted;
using rules::NotedCall;

/// The texts and the numbers of which a name consists, in turn.
std::vector<std::string> texts_and_numbers(const std::string& name) {
  std::vector<std::string> parts{""};
  bool in_number = false;
  for (const char letter : name) {
    if ((std::isdigit(static_cast<unsigned char>(letter)) != 0) != in_number) {
      parts.emplace_back();
      in_number = !in_number;
    }
    parts.back() += letter;
  }
  return parts;
}

/// A pattern for names that differ in numbers: `*` where they do.
std::string pattern_of(const std::vector<std::string>& names) {
  std::vector<std::string> pattern = texts_and_numbers(names[0]);
  for (const std::string& name : names) {
    const std::vector<std::string> parts = texts_and_numbers(name);
    for (size_t i = 0; i < parts.size(); ++i)
      if (parts[i] != pattern[i]) pattern[i] = std::string(1, '*');
  }
  std::string text;
  for (const std::string& part : pattern) text += part;
  return text;
}

std::string text_of(const std::string& dim, const std::vector<std::string>& axes, const DimChoice& choice) {
  std::string text = dim + " over ";
  for (size_t i = 0; i < axes.size(); ++i) text += (i > 0 ? " and " : "") + axes[i];
  if (choice.parts > 1) text += " in " + std::to_string(choice.parts) + " parts";
  if (choice.unit > 1) text += " by " + std::to_string(choice.unit);
  return text;
}

/// What the first two dims of a value are called.
std::pair<std::string, std::string> names_of_dims(const Noted& noted, size_t value) {
  for (const NotedCall& call : noted.calls)
    for (const NotedCall::Operand& operand : call.operands) {
      if (operand.value != value) continue;
      const std::string& name = call.handle.schema().name();
      if (name == "aten::embedding") return {"words", "features"};
      if (name.starts_with("aten::conv_transpose")) return {"dim 0", "dim 1"};
    }
  return {"outputs", "inputs"};
}

struct Layer {
  std::string name;
  std::vector<size_t> tensors;
};

/// A layer is the tensors whose names differ in the last word alone.
std::vector<Layer> layers_of(const std::vector<NamedTensor>& tensors) {
  std::vector<Layer> layers;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string& name = tensors[i].name;
    const std::string of_layer = name.substr(0, std::min(name.rfind('.'), name.size()));
    auto at = std::ranges::find(layers, of_layer, &Layer::name);
    if (at == layers.end()) at = layers.insert(at, {of_layer, {}});
    at->tensors.push_back(i);
  }
  return layers;
}

/// What equal layers have in common: their name but for numbers, and the last words and shapes of their tensors.
std::vector<std::string> common_of(const Layer& layer, const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> common = texts_and_numbers(layer.name);
  for (size_t i = 1; i < common.size(); i += 2) common[i] = std::string(1, '*');
  for (const size_t i : layer.tensors)
    common.push_back(tensors[i].name.substr(layer.name.size()) + shape_text(tensors[i].tensor.sizes().vec()));
  return common;
}

/// The fewest patterns that name these tensors of a module alone.
std::vector<std::string> patterns_of(const std::vector<size_t>& chosen, const std::vector<std::string>& layers,
                                     const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> of_layers, of_last_words, all;
  std::map<std::string, std::vector<std::string>> by_last_word;
  for (const std::string& layer : layers) of_layers.push_back(layer + ".*");
  for (const size_t i : chosen) {
    all.push_back(tensors[i].name);
    by_last_word[all.back().substr(all.back().rfind('.') + 1)].push_back(all.back());
  }
  for (const auto& [last, names] : by_last_word) of_last_words.push_back(pattern_of(names));
  const auto names_these_alone = [&](const std::vector<std::string>& patterns) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const bool is_named =
          std::ranges::any_of(patterns, [&](const auto& p) { return pattern_names(p, tensors[i].name); });
      if (is_named != (std::ranges::find(chosen, i) != chosen.end())) return false;
    }
    return true;
  };
  for (const auto& patterns : {std::vector{pattern_of(layers) + ".*"}, of_last_words, of_layers})
    if (names_these_alone(patterns)) return patterns;
  return all;
}

/// All texts by which a tensor may be cut.
std::vector<CutText> choices_of(const at::Tensor& tensor, const std::pair<std::string, std::string>& names,
                                const DimChoices& dims, const std::vector<std::string>& axes) {
  const auto count = static_cast<size_t>(std::min<int64_t>(tensor.dim(), 2));
  size_t combinations = 1;
  for (size_t i = 0; i < axes.size(); ++i) combinations *= count + 1;
  std::vector<CutText> choices;
  for (size_t combination = 0; combination < combinations; ++combination) {
    std::array<std::vector<std::string>, 3> over;  // by dim; the last: nothing
    for (size_t i = 0, rest = combination; i < axes.size(); ++i, rest /= count + 1)
      over[(rest + count) % (count + 1)].push_back(axes[i]);  // the first combination cuts nothing
    std::vector<CutText> texts{""};
    for (size_t dim = 0; dim < count; ++dim) {
      if (over[dim].empty()) continue;
      std::vector<CutText> longer;
      for (const CutText& text : texts)
        for (const DimChoice& choice : dims.of(tensor.size(static_cast<int64_t>(dim))))
          longer.push_back((text.empty() ? "" : text + ", ") +
                           text_of(dim == 0 ? names.first : names.second, over[dim], choice));
      texts = std::move(longer);
    }
    choices.insert(choices.end(), texts.begin(), texts.end());
  }
  return choices;
}

}  // namespace

std::vector<CutLayers> cut_layers(const std::vector<NamedTensor>& tensors, const Noted& noted,
                                  const std::vector<std::string>& axes) {
  constexpr size_t kNever = std::numeric_limits<size_t>::max();
  std::vector<size_t> first_use(tensors.size(), kNever);
  for (size_t call = noted.calls.size(); call-- > 0;)
    for (const NotedCall::Operand& operand : noted.calls[call].operands)
      if (operand.value && *operand.value < tensors.size()) first_use[*operand.value] = call;
  const auto use_of = [&](const Layer& layer) {
    size_t first = kNever;
    for (const size_t i : layer.tensors) first = std::min(first, first_use[i]);
    return first;
  };
  std::vector<Layer> layers = layers_of(tensors);
  std::erase_if(layers, [&](const Layer& layer) {
    return use_of(layer) == kNever ||
           std::ranges::all_of(layer.tensors, [&](size_t i) { return tensors[i].is_buffer; });
  });
  std::ranges::stable_sort(layers, {}, use_of);

  std::vector<std::vector<std::string>> common, names;  // of each that is found
  std::vector<CutLayers> found;
  for (const Layer& layer : layers) {
    const auto place = std::ranges::find(common, common_of(layer, tensors)) - common.begin();
    if (place == std::ssize(common)) {
      common.push_back(common_of(layer, tensors));
      names.emplace_back();
      found.emplace_back();
    }
    const auto i = static_cast<size_t>(place);
    names[i].push_back(layer.name);
    found[i].tensors.insert(found[i].tensors.end(), layer.tensors.begin(), layer.tensors.end());
  }
  const DimChoices dims(noted);
  for (size_t i = 0; i < found.size(); ++i) {
    const size_t largest =
        *std::ranges::max_element(found[i].tensors, {}, [&](size_t tensor) { return tensors[tensor].tensor.numel(); });
    found[i].patterns = patterns_of(found[i].tensors, names[i], tensors);
    found[i].choices = choices_of(tensors[largest].tensor, names_of_dims(noted, largest), dims, axes);
  }
  return found;
}

}  // namespace adjoin::parallel
