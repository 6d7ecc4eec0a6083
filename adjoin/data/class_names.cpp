#include "adjoin/data/class_names.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

#include "adjoin/base/error.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/data/samples.hpp"

namespace adjoin::data {
namespace {

constexpr size_t kMostNames = 10;  // in a message

const std::vector<std::string> kSentiments = {"negative", "positive"};

/// 0 for negative, 1 for positive.
std::optional<int64_t> sentiment_of(std::string_view label) {
  std::string word;
  for (const unsigned char c : label) word += static_cast<char>(std::tolower(c));
  if (word == "1" || word == "positive" || word == "pos") return 1;
  if (word == "0" || word == "negative" || word == "neg") return 0;
  return std::nullopt;
}

/// Whether two names mean negative and positive, in any spelling and order.
bool are_sentiments(const std::vector<std::string>& names) {
  if (names.size() != 2) return false;
  const auto first = sentiment_of(names[0]), second = sentiment_of(names[1]);
  return first && second && first != second;
}

/// The label without white space around it, and with single spaces inside, so that a name fits on one line.
std::string tidied(std::string label) {
  drop_invalid_utf8(label);
  std::string tidy;
  for (const char c : label) {
    if (!std::isspace(static_cast<unsigned char>(c)))
      tidy += c;
    else if (!tidy.empty() && tidy.back() != ' ')
      tidy += ' ';
  }
  if (tidy.ends_with(' ')) tidy.pop_back();
  return tidy;
}

std::optional<int64_t> whole_number(const std::string& text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stopped == end ? std::optional(number) : std::nullopt;
}

bool comes_before(const std::string& a, const std::string& b) {
  const auto x = whole_number(a), y = whole_number(b);
  return x && y && *x != *y ? *x < *y : a < b;
}

}  // namespace

ClassNames::ClassNames() : names_(kSentiments) {}

ClassNames::ClassNames(std::vector<std::string> names) : names_(std::move(names)) {
  require(!names_.empty(), "expected the name of at least one class, got none");
  std::set<std::string_view> met;
  for (const std::string& name : names_) {
    require(!name.empty(), "the name of a class is empty");
    require(met.insert(name).second, [&] { return "two classes are named " + shortened(name); });
  }
}

ClassNames ClassNames::of(const std::set<std::string>& labels) {
  if (std::all_of(labels.begin(), labels.end(), [](const std::string& label) { return sentiment_of(label); }))
    return {};
  std::vector<std::string> names(labels.begin(), labels.end());
  if (std::all_of(names.begin(), names.end(), [](const std::string& name) { return whole_number(name); }))
    std::sort(names.begin(), names.end(), comes_before);
  return ClassNames(std::move(names));
}

std::optional<int64_t> ClassNames::find(std::string_view label) const {
  if (const auto found = std::find(names_.begin(), names_.end(), label); found != names_.end())
    return found - names_.begin();
  const auto sentiment = sentiment_of(label);
  for (size_t i = 0; sentiment && are_sentiments(names_) && i < names_.size(); ++i)
    if (sentiment_of(names_[i]) == sentiment) return static_cast<int64_t>(i);
  return std::nullopt;
}

std::string ClassNames::expected() const {
  if (are_sentiments(names_)) return "0 or 1, neg or pos, negative or positive";
  return "one of " + listed(names_, kMostNames);
}

Labels read_labels(SampleReader& samples, const std::optional<ClassNames>& given) {
  std::map<std::string, int32_t> met;  // each label with its place in order of appearance
  std::vector<int32_t> of_sample;
  for (Sample sample; samples.next(sample);) {
    const std::string label = tidied(sample.label);
    if (label.empty()) samples.fail("the label is empty");
    const auto [found, is_new] = met.try_emplace(label, static_cast<int32_t>(met.size()));
    if (is_new && given && !given->find(label))
      samples.fail("unknown label " + shortened(sample.label) + "; expected " + given->expected());
    of_sample.push_back(found->second);
  }
  std::set<std::string> labels;
  for (const auto& [label, place] : met) labels.insert(label);
  const ClassNames classes = given ? *given : ClassNames::of(labels);
  std::vector<int32_t> class_of(met.size());
  for (const auto& [label, place] : met)
    class_of[static_cast<size_t>(place)] = static_cast<int32_t>(*classes.find(label));
  for (int32_t& label : of_sample) label = class_of[static_cast<size_t>(label)];
  return {classes, std::move(of_sample)};
}

}  // namespace adjoin::data
