#include "adjoin/data/sample_corpus.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "adjoin/data/sample_words.hpp"
#include "adjoin/data/tokenizer/text_steps.hpp"
#include "tests/support/samples.hpp"

namespace adjoin::data {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for_each_bert_word(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

bool is_word(const std::string& word) {
  return std::isalpha(static_cast<unsigned char>(word[0]));
}

template <class Words>
bool holds(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// +1 or -1 for a clause that praises or blames, 0 for a remark.
int polarity(const std::string& clause) {
  static const std::set<std::string> negations = {"not", "never", "hardly", "far", "means"};
  int sign = 1;
  std::istringstream in(clause);
  for (std::string word; in >> word;) {
    if (negations.contains(word)) sign = -1;
    if (holds(sample::kPraise, word)) return sign;
    if (holds(sample::kBlame, word)) return -sign;
  }
  return 0;
}

int label_of(const Sample& sample) {
  return sample.label == "positive" ? 1 : 0;
}

/// The label as the header of the corpus says that it follows from the text.
int read_by_the_rule(const std::string& text) {
  std::vector<std::string> clauses(1);
  for (const std::string& word : words_of(text)) {
    if (!is_word(word)) {
      clauses.emplace_back();
    } else {
      clauses.back() += (clauses.back().empty() ? "" : " ") + word;
    }
  }
  int deciding = 0;
  for (const std::string& clause : clauses)  // of two contrasts either decides: they agree
    if (clause.starts_with("but ")) deciding = polarity(clause);
  for (size_t i = 0; i + 1 < clauses.size(); ++i)
    if (clauses[i].starts_with("although ")) deciding = polarity(clauses[i + 1]);
  for (const std::string& clause : clauses)
    for (const auto marker : sample::kVerdictMarkers)
      if (clause.starts_with(marker)) deciding = polarity(clause);
  for (const std::string& clause : clauses)
    if (deciding == 0) deciding = polarity(clause);
  return deciding > 0 ? 1 : 0;
}

/// Multinomial naive Bayes on word counts with add-one smoothing (Manning, Raghavan and Schuetze 2008, chapter 13).
class NaiveBayes {
 public:
  explicit NaiveBayes(const std::vector<Sample>& reviews) {
    for (const Sample& review : reviews)
      for (const std::string& word : words_of(review.text)) {
        ++counts_[word][label_of(review)];
        ++totals_[label_of(review)];
      }
  }

  int predict(const std::string& text) const {
    double evidence = 0;
    for (const std::string& word : words_of(text)) evidence += log_odds(word);
    return evidence > 0 ? 1 : 0;
  }

 private:
  double log_odds(const std::string& word) const {
    const auto found = counts_.find(word);
    if (found == counts_.end()) return 0;
    const auto smoothed = [&](int label) {
      return (found->second[label] + 1.0) / (totals_[label] + static_cast<double>(counts_.size()));
    };
    return std::log(smoothed(1) / smoothed(0));
  }

  struct PerLabel {
    double values[2] = {0, 0};
    double& operator[](int label) { return values[label]; }
    double operator[](int label) const { return values[label]; }
  };
  std::map<std::string, PerLabel> counts_;
  PerLabel totals_;
};

template <class Predict>
double accuracy(const std::vector<Sample>& reviews, Predict predict) {
  const auto right =
      std::count_if(reviews.begin(), reviews.end(), [&](const Sample& r) { return predict(r.text) == label_of(r); });
  return static_cast<double>(right) / static_cast<double>(reviews.size());
}

TEST(SampleCorpus, is_balanced_and_of_the_promised_size) {
  for (const auto& [part, size] :
       {std::pair{Part::train, kSampleTrainReviews}, std::pair{Part::test, kSampleTestReviews}}) {
    const auto reviews = all_of(*open_sample_corpus(part));
    ASSERT_EQ(std::ssize(reviews), size);
    EXPECT_EQ(std::count_if(reviews.begin(), reviews.end(), [](const Sample& r) { return label_of(r) == 1; }),
              size / 2);
    for (const Sample& review : reviews) {
      const auto words = words_of(review.text);
      const auto count = std::count_if(words.begin(), words.end(), is_word);
      EXPECT_TRUE(count >= 10 && count <= 60) << count << " words: " << review.text;
    }
  }
}

TEST(SampleCorpus, has_a_vocabulary_of_a_few_hundred_words_and_no_braces_left) {
  std::set<std::string> words;
  for (const Sample& review : all_of(*open_sample_corpus(Part::train)))
    for (const std::string& word : words_of(review.text)) words.insert(word);
  EXPECT_GT(words.size(), 150u);
  EXPECT_LT(words.size(), 400u);
  EXPECT_FALSE(words.contains("{"));
}

TEST(SampleCorpus, tests_on_reviews_that_it_does_not_train_on) {
  std::set<std::string> seen;
  for (const Sample& review : all_of(*open_sample_corpus(Part::train))) seen.insert(review.text);
  for (const Sample& review : all_of(*open_sample_corpus(Part::test)))
    EXPECT_FALSE(seen.contains(review.text)) << review.text;
}

TEST(SampleCorpus, repeats) {
  EXPECT_EQ(all_of(*open_sample_corpus(Part::test))[17].text, all_of(*open_sample_corpus(Part::test))[17].text);
  EXPECT_NE(all_of(*open_sample_corpus(Part::test))[17].text, all_of(*open_sample_corpus(Part::train))[17].text);
}

TEST(SampleCorpus, is_read_without_a_mistake_by_its_rule) {
  for (const Part part : {Part::train, Part::test})
    for (const Sample& review : all_of(*open_sample_corpus(part)))
      EXPECT_EQ(read_by_the_rule(review.text), label_of(review)) << review.text;
}

TEST(SampleCorpus, is_not_solved_by_counting_words) {
  const NaiveBayes model(all_of(*open_sample_corpus(Part::train)));
  const double found =
      accuracy(all_of(*open_sample_corpus(Part::test)), [&](const auto& text) { return model.predict(text); });
  RecordProperty("accuracy", std::to_string(found));
  EXPECT_LT(found, 0.75);
  EXPECT_GT(found, 0.55);  // the words do say something: a model finds a way to begin
}

}  // namespace
}  // namespace adjoin::data
