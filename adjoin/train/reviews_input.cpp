#include "adjoin/train/reviews_input.hpp"

#include <iostream>
#include <string>

#include "adjoin/comm/launch.hpp"
#include "adjoin/data/reviews.hpp"
#include "adjoin/data/sample_corpus.hpp"
#include "adjoin/data/vocabulary.hpp"
#include "adjoin/train/saved_model.hpp"

namespace adjoin::train {

namespace {

data::WordPiece make_tokenizer(const Configuration& configuration, const std::vector<data::Review>& train) {
  if (!configuration.resume.empty()) return tokenizer_to_resume(configuration.resume);
  if (!configuration.vocab.empty()) return data::WordPiece::load(configuration.vocab);
  return data::WordPiece(data::learn_vocabulary(train, {.size = configuration.vocabulary_size}));
}

}  // namespace

data::Reviews read_reviews(const std::string& data, data::Part part, int64_t samples) {
  data::Reviews reviews = data == "sample" ? data::sample_corpus(part) : data::load_reviews(data, part);
  if (samples > 0) reviews.samples = data::take_balanced(std::move(reviews.samples), samples);
  return reviews;
}

void warn_of_dropped_bytes(const std::string& data, int64_t bytes) {
  if (bytes > 0 && mpi_job_rank() == 0)
    std::cerr << "adjoin: warning: " << data << ": " << bytes << " bytes were no UTF-8 and were dropped" << std::endl;
}

TrainingInput read_training_input(const Configuration& configuration) {
  const data::Reviews train = read_reviews(configuration.data, data::Part::train, configuration.samples);
  const data::Reviews test = read_reviews(configuration.data, data::Part::test, configuration.samples);
  data::WordPiece tokenizer = make_tokenizer(configuration, train.samples);
  warn_of_dropped_bytes(configuration.data, train.dropped_bytes + test.dropped_bytes);
  Dataset train_set = tokenize(train.samples, tokenizer, configuration.sequence);
  Dataset test_set = tokenize(test.samples, tokenizer, configuration.sequence);
  return {std::move(tokenizer), std::move(train_set), std::move(test_set)};
}

}  // namespace adjoin::train
