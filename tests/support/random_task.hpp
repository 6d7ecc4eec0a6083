#pragma once

#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "adjoin/texts/language_modelling.hpp"
#include "adjoin/texts/text_classification.hpp"

namespace adjoin::testing {

inline data::WordPiece numbered_pieces(int64_t size) {
  std::vector<std::string> pieces{"[PAD]", "[UNK]", "[CLS]", "[SEP]"};
  for (int64_t id = std::ssize(pieces); id < size; ++id) pieces.push_back(std::to_string(id));
  return data::WordPiece(std::move(pieces));
}

/// A task of made-up tokens: of a classifier so many texts, of which text i has length(i) tokens; of a decoder so many
/// documents.
inline std::unique_ptr<train::Task> random_task(const train::Configuration& c, int64_t texts,
                                                const std::function<int64_t(int64_t)>& length) {
  const auto tokens = [&](int64_t i, int64_t words) {
    std::vector<int64_t> ids;
    for (int64_t t = 0; t < length(i); ++t) ids.push_back((i * 31 + t * t * 7) % words);
    return ids;
  };
  if (c.model == train::ModelKind::classifier) {
    data::TokenStoreBuilder builder(c.vocabulary_size);
    for (int64_t i = 0; i < texts; ++i) builder.add(tokens(i, c.vocabulary_size), i % 2);
    const data::TokenStore store = builder.finish();
    return std::make_unique<train::TextClassification>(
        c, train::TrainingInput{{numbered_pieces(c.vocabulary_size), data::ClassNames()}, store, store});
  }
  const auto vocabulary = data::byte_vocabulary();
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < texts; ++i) {
    const std::vector<int64_t> document = tokens(i, vocabulary->end_of_document());
    ids.insert(ids.end(), document.begin(), document.end());
    ids.push_back(vocabulary->end_of_document());
  }
  data::TokenStoreBuilder builder(vocabulary->size());
  builder.add(ids, /*label=*/0);
  const data::DocumentTokens documents{
      .name = "bytes",
      .tokens = builder.finish(),
      .counts = {.documents = texts, .bytes = std::ssize(ids) - texts, .tokens = std::ssize(ids)},
      .words = vocabulary->size(),
      .end_of_document = vocabulary->end_of_document()};
  return std::make_unique<train::LanguageModelling>(c, train::LanguageInput{vocabulary, documents, documents});
}

inline std::vector<int64_t> all_samples(const train::Task& task) {
  std::vector<int64_t> samples(static_cast<size_t>(task.size(data::Part::train)));
  std::iota(samples.begin(), samples.end(), int64_t{0});
  return samples;
}

}  // namespace adjoin::testing
