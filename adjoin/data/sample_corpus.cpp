#include "adjoin/data/sample_corpus.hpp"

#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/data/random.hpp"
#include "adjoin/data/sample_words.hpp"

namespace adjoin::data {
namespace {

constexpr uint64_t kSeed = 1895;

void replace(std::string& text, std::string_view what, std::string_view with) {
  if (const size_t at = text.find(what); at != std::string::npos) text.replace(at, what.size(), with);
}

std::string capitalized(std::string clause) {
  clause[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(clause[0])));
  return clause;
}

class Writer {
 public:
  Writer(uint64_t stream, bool positive) : random_(kSeed, stream), positive_(positive) {}

  std::string review() {
    const uint64_t kind = random_.below(10);
    kind < 3 ? write_agreement() : kind < 6 ? write_contrast() : write_verdict();
    add_remarks();
    return joined();
  }

 private:
  void write_agreement() {
    for (uint64_t i = 0, count = 3 + random_.below(3); i < count; ++i) add(aspect_opinion(positive_));
  }

  void write_contrast() {
    for (uint64_t i = 0, count = 1 + random_.below(2); i < count; ++i) {
      const std::string conceded = aspect_opinion(!positive_), claimed = aspect_opinion(positive_);
      add(chance(2) ? conceded + ", but " + claimed : "although " + conceded + ", " + claimed);
    }
  }

  // The other opinions agree slightly more often with the label, as in real reviews.
  void write_verdict() {
    for (uint64_t i = 0, count = 2 + random_.below(3); i < count; ++i)
      add(aspect_opinion(random_.below(3) < 2 ? positive_ : !positive_));
    std::string verdict{pick(sample::kVerdicts)};
    replace(verdict, "{1}", opinion(positive_));
    const std::string sentence = std::string(pick(sample::kVerdictMarkers)) + " " + verdict;
    sentences_.insert(chance(3) ? sentences_.begin() : sentences_.end(), sentence);
  }

  void add_remarks() {
    const uint64_t first = random_.below(sample::kRemarks.size()), fewest = sentences_.size() == 1 ? 1 : 0;
    for (uint64_t i = 0, count = fewest + random_.below(3); i < count; ++i) {
      const std::string_view remark = sample::kRemarks[(first + i) % sample::kRemarks.size()];
      const auto at = static_cast<std::ptrdiff_t>(random_.below(sentences_.size() + 1));
      sentences_.insert(sentences_.begin() + at, std::string(remark));
    }
  }

  std::string aspect_opinion(bool positive) {
    std::string clause{pick(sample::kAspectOpinions)};
    replace(clause, "{0}", pick(sample::kAspects));
    replace(clause, "{1}", opinion(positive));
    return clause;
  }

  std::string opinion(bool positive) {
    const bool negated = chance(4);
    const std::string_view before = negated ? pick(sample::kNegations) : pick(sample::kStress);
    const std::string_view word = positive != negated ? pick(sample::kPraise) : pick(sample::kBlame);
    return std::string(before) + (before.empty() ? "" : " ") + std::string(word);
  }

  void add(std::string sentence) { sentences_.push_back(std::move(sentence)); }

  std::string joined() {
    std::string text;
    for (const std::string& sentence : sentences_) {
      if (!text.empty()) text += ' ';
      text += capitalized(sentence);
      text += chance(12) ? '!' : '.';
    }
    return text;
  }

  bool chance(uint64_t one_in) { return random_.below(one_in) == 0; }

  template <size_t N>
  std::string_view pick(const std::array<std::string_view, N>& words) {
    return words[random_.below(N)];
  }

  SplitMix64 random_;
  bool positive_;
  std::vector<std::string> sentences_;
};

class SampleCorpus final : public SampleReader {
 public:
  explicit SampleCorpus(Part part)
      : at_(part == Part::train ? 0 : kSampleTrainReviews),
        end_(at_ + (part == Part::train ? kSampleTrainReviews : kSampleTestReviews)) {}

  bool next(Sample& sample) override {
    if (at_ == end_) return false;
    const bool positive = at_ % 2 == 0;
    sample.text = Writer(static_cast<uint64_t>(at_++), positive).review();
    sample.label = positive ? "positive" : "negative";
    return true;
  }

  void fail(const std::string& what) override { throw InvalidArgument("sample: " + what); }

 private:
  int at_, end_;
};

}  // namespace

std::unique_ptr<SampleReader> open_sample_corpus(Part part) {
  return std::make_unique<SampleCorpus>(part);
}

}  // namespace adjoin::data
