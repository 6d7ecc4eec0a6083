#include "adjoin/rules/operation.hpp"

namespace adjoin::rules {
namespace {

/// LSTM, GRU and plain recurrent networks, of which samples are cut: (input, state or states, weights, has_biases, layers, dropout,
/// train, bidirectional, batch_first). With dropout their parts draw by rules of their own.
std::vector<Way> recurrent(const Operation& operation) {
  enum : int { kSample, kToken, kFeature, kLayer, kHidden, kMade, kOther };
  constexpr size_t kWeights = 2, kDropout = 5, kTrains = 6, kBothWays = 7, kSamplesFirst = 8;
  if (operation.operands.empty() || operation.operands[0].layout.dims() != 3) return {};
  if (operation.arguments[kDropout].toDouble() > 0 && operation.arguments[kTrains].toBool()) return {};
  const bool samples_first = operation.arguments[kSamplesFirst].toBool();
  const auto rows = [samples_first](int feature) {
    return samples_first ? std::vector<int>{kSample, kToken, feature} : std::vector<int>{kToken, kSample, feature};
  };
  const std::vector<int> state{kLayer, kSample, kHidden};
  Labels labels{
      .operands = {rows(kFeature)}, .results = {rows(kMade)}, .whole = {kToken, kFeature, kLayer, kHidden, kMade}};
  int other = kOther;
  int64_t hidden = 0;
  for (size_t i = 1; i < operation.operands.size(); ++i) {
    const Operand& operand = operation.operands[i];
    if (operand.argument < kWeights) {
      labels.operands.push_back(state);
      labels.results.push_back(state);
      hidden = operand.layout.shape().back();
      continue;
    }
    labels.operands.push_back(numbered(operand.layout.dims(), other));
    for (const int label : labels.operands.back()) labels.whole.insert(label);
    other += static_cast<int>(operand.layout.dims());
  }
  if (labels.results.size() < 2) return {};
  // With projections the first state, which is what the network returns, is smaller than the second.
  labels.sizes[kMade] = operation.operands[1].layout.shape().back() * (operation.arguments[kBothWays].toBool() ? 2 : 1);
  if (hidden != operation.operands[1].layout.shape().back()) return {};
  std::vector<Way> ways = labelled(labels, operation);
  for (Way& way : ways) {
    std::vector<std::vector<int64_t>> shapes;
    for (const Layout& made : way.makes) shapes.push_back(made.shape_on(operation.home.rank));
    if (shapes[0][samples_first ? 0 : 1] > 0) continue;
    way.kernel = [shapes](Arguments arguments) {  // LibTorch has none without samples
      std::vector<at::Tensor> made;
      for (const auto& shape : shapes) made.push_back(arguments[0].toTensor().new_zeros(shape));
      return made;
    };
  }
  return ways;
}

}  // namespace

Table recurrent_rules() {
  return {{{"lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input"}, recurrent, /*is_product=*/true}};
}

}  // namespace adjoin::rules
