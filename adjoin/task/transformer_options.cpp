#include "adjoin/task/transformer_options.hpp"

#include "adjoin/base/error.hpp"
#include "adjoin/task/task.hpp"

namespace adjoin::train {

int64_t context_of(const Configuration& c) {
  return c.context == 0 ? c.sequence : c.context;
}

models::TransformerOptions transformer_options(const Configuration& c, int64_t pieces) {
  require(c.words == 0 || c.words >= pieces, [&] {
    if (!c.from.empty())
      return c.from + ": the tokenizer has " + std::to_string(pieces) + " pieces, and the model's embedding only " +
             std::to_string(c.words) + " rows; they do not belong together";
    return "--words " + std::to_string(c.words) + ": expected at least " + std::to_string(pieces) +
           ", the number of pieces in the vocabulary";
  });
  models::TransformerOptions options = c;
  if (options.words == 0) options.words = pieces;
  const bool has_context = c.is_decoder() || c.positions == models::TransformerOptions::Positions::learned;
  options.context = has_context ? context_of(c) : 0;
  if (c.embedding_dropout < 0) options.embedding_dropout = c.is_decoder() || c.embedding_norm ? c.dropout : 0;
  options.experts = expert_options(c);
  return options;
}

models::ClassifierOptions classifier_options(const Configuration& c, int64_t classes) {
  models::ClassifierOptions options = c.classifier;
  options.classes = classes;
  if (options.dropout < 0) options.dropout = c.dropout;
  return options;
}

}  // namespace adjoin::train
