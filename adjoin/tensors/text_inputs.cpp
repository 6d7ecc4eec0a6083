#include "adjoin/tensors/text_inputs.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/program/declared.hpp"

namespace adjoin::train {

void check_reads_texts(const ProgramNet& net) {
  bool has_ids = false;
  for (const ProgramNet::Input& input : net.inputs()) {
    const bool is_ids = input.name == "input_ids";
    has_ids |= is_ids;
    require(
        (is_ids || input.name == "attention_mask" || input.name == "token_type_ids") && input.spec.sizes.size() == 2,
        [&] {
          return net.path() + ": input \"" + input.name + "\" is " + program::to_string(input.spec) +
                 ", and texts are input_ids, attention_mask and token_type_ids, [texts, tokens]";
        });
  }
  require(has_ids, [&] { return net.path() + ": texts are \"input_ids\", which it does not take"; });
}

std::optional<int64_t> only_length(const ProgramNet& net) {
  for (const ProgramNet::Input& input : net.inputs())
    if (input.spec.sizes.size() == 2 && input.spec.sizes[1].is_fixed) return input.spec.sizes[1].example;
  return std::nullopt;
}

Configuration with_length(Configuration configuration, const ProgramNet& net) {
  configuration.sequence = std::min(configuration.sequence, only_length(net).value_or(configuration.sequence));
  return configuration;
}

at::Tensor padded_texts(const at::Tensor& ids, const std::vector<int64_t>& lengths, int64_t tokens, int64_t padding) {
  const std::vector<int64_t> sizes{static_cast<int64_t>(lengths.size()), tokens};
  const at::Tensor padded = at::full(sizes, padding, at::kLong), mask = at::zeros(sizes, at::kLong);
  int64_t begin = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    padded[row].slice(0, 0, lengths[i]).copy_(ids.slice(0, begin, begin + lengths[i]));
    mask[row].slice(0, 0, lengths[i]).fill_(1);
    begin += lengths[i];
  }
  return at::stack({padded, mask}, 1);
}

ProgramNet::Unpack texts_for(const ProgramNet& net) {
  return [&net](const at::Tensor& input) {
    std::vector<at::Tensor> inputs;
    for (const ProgramNet::Input& wanted : net.inputs())
      inputs.push_back(wanted.name == "input_ids"        ? input.select(1, 0)
                       : wanted.name == "attention_mask" ? input.select(1, 1)
                                                         : at::zeros_like(input.select(1, 0)));
    return inputs;
  };
}

}  // namespace adjoin::train
