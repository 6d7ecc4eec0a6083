#include "adjoin/train/reviews_input.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "adjoin/data/reviews.hpp"
#include "adjoin/data/sample_corpus.hpp"
#include "adjoin/data/vocabulary.hpp"
#include "adjoin/train/messages.hpp"
#include "adjoin/train/saved_model.hpp"

namespace adjoin::train {

namespace {

void warn_of_one_class(const std::string& data, const std::vector<data::Review>& train) {
  const auto positive = std::count_if(train.begin(), train.end(), [](const data::Review& r) { return r.label == 1; });
  if (positive == 0 || positive == std::ssize(train))
    warn(data + ": all training reviews are " + (positive == 0 ? "negative" : "positive") +
         ", so there is nothing to tell apart");
}

/// The vocabulary that a file gives; nothing where it is to be learned.
std::optional<data::WordPiece> given_tokenizer(const Configuration& configuration) {
  if (!configuration.resume.empty()) return tokenizer_to_resume(configuration.resume);
  if (!configuration.vocab.empty()) return data::WordPiece::load(configuration.vocab);
  return std::nullopt;
}

}  // namespace

data::Reviews read_reviews(const std::string& data, data::Part part, int64_t samples) {
  data::Reviews reviews = data == "sample" ? data::sample_corpus(part) : data::load_reviews(data, part);
  if (samples > 0) reviews.samples = data::take_balanced(std::move(reviews.samples), samples);
  return reviews;
}

void warn_of_dropped_bytes(const std::string& data, int64_t bytes) {
  if (bytes > 0) warn(data + ": " + std::to_string(bytes) + " bytes were no UTF-8 and were dropped");
}

TrainingInput read_training_input(const Configuration& configuration) {
  const data::Reviews train = read_reviews(configuration.data, data::Part::train, configuration.samples);
  const data::Reviews test = read_reviews(configuration.data, data::Part::test, configuration.samples);
  std::optional<data::WordPiece> given = given_tokenizer(configuration);
  say(grouped(std::ssize(train.samples)) + " training and " + grouped(std::ssize(test.samples)) +
      " test reviews from " + configuration.data);
  data::WordPiece tokenizer =
      given ? std::move(*given)
            : data::WordPiece(data::learn_vocabulary(train.samples, {.size = configuration.vocabulary_size}));
  say("vocabulary of " + grouped(tokenizer.size()) + " pieces" + (given ? "" : ", learned from the training reviews"));
  warn_of_dropped_bytes(configuration.data, train.dropped_bytes + test.dropped_bytes);
  warn_of_one_class(configuration.data, train.samples);
  Dataset train_set = tokenize(train.samples, tokenizer, configuration.sequence);
  Dataset test_set = tokenize(test.samples, tokenizer, configuration.sequence);
  return {std::move(tokenizer), std::move(train_set), std::move(test_set)};
}

}  // namespace adjoin::train
