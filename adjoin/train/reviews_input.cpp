#include "adjoin/train/reviews_input.hpp"

#include <iostream>
#include <string>

#include "adjoin/comm/launch.hpp"
#include "adjoin/data/reviews.hpp"
#include "adjoin/data/sample_corpus.hpp"
#include "adjoin/data/vocabulary.hpp"

namespace adjoin::train {

std::vector<data::Review> read_reviews(const std::string& data, data::Part part, int64_t samples) {
  std::vector<data::Review> reviews;
  if (data == "sample") {
    reviews = data::sample_corpus(part).samples;
  } else {
    data::Reviews loaded = data::load_reviews(data, part);
    if (loaded.dropped_bytes > 0)
      std::cerr << "adjoin: warning: " << data << ": " << loaded.dropped_bytes
                << " bytes were no UTF-8 and were dropped" << std::endl;
    reviews = std::move(loaded.samples);
  }
  return samples > 0 ? data::take_balanced(std::move(reviews), samples) : reviews;
}

TrainingInput read_training_input(const Configuration& configuration) {
  const auto train = read_reviews(configuration.data, data::Part::train, configuration.samples);
  const auto test = read_reviews(configuration.data, data::Part::test, configuration.samples);
  data::WordPiece tokenizer =
      configuration.vocab.empty()
          ? data::WordPiece(data::learn_vocabulary(train, {.size = configuration.vocabulary_size}))
          : data::WordPiece::load(configuration.vocab);
  Dataset train_set = tokenize(train, tokenizer, configuration.sequence);
  Dataset test_set = tokenize(test, tokenizer, configuration.sequence);
  return {std::move(tokenizer), std::move(train_set), std::move(test_set)};
}

}  // namespace adjoin::train
