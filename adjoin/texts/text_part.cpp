#include "adjoin/texts/text_part.hpp"

#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/data/sample_corpus.hpp"

namespace adjoin::train {
namespace {

constexpr int64_t kTestEvery = 10;  // every so-many-th text of a class, if one file gives both parts

std::vector<int64_t> order_of_use(const TextSource& source, data::Part part, const data::Labels& labels) {
  std::vector<int64_t> found;
  std::vector<int32_t> classes;
  std::vector<int64_t> seen(static_cast<size_t>(labels.classes.size()));
  for (size_t sample = 0; sample < labels.of_sample.size(); ++sample) {
    const int32_t label = labels.of_sample[sample];
    const bool is_test = ++seen[static_cast<size_t>(label)] % kTestEvery == 0;
    if (source.splits && is_test != (part == data::Part::test)) continue;
    found.push_back(static_cast<int64_t>(sample));
    classes.push_back(label);
  }
  require(!found.empty(), [&] {
    return source.data + ": expected a class of at least " + std::to_string(kTestEvery) +
           " texts, of which one is held out for testing; a folder with train.csv and test.csv may hold fewer";
  });
  if (source.samples == 0) return found;
  std::vector<int64_t> order;
  for (const int64_t place : data::balanced_order(classes, source.samples))
    order.push_back(found[static_cast<size_t>(place)]);
  return order;
}

}  // namespace

TextPart::TextPart(const TextSource& source, data::Part part, const std::optional<data::ClassNames>& given)
    : source_(source),
      part_(part),
      labels_(data::read_labels(*open(), given)),
      order_(order_of_use(source, part, labels_)),
      is_used_(labels_.of_sample.size()) {
  for (const int64_t sample : order_) is_used_[static_cast<size_t>(sample)] = true;
}

void TextPart::count_words(data::WordCounter& counter) const {
  for_each_used(*open(), [&](const std::string& text, int64_t) { counter.add(text); });
}

data::TokenStore TextPart::tokenize(const data::WordPiece& tokenizer, int64_t sequence) {
  data::TokenStoreBuilder builder(tokenizer.size());
  std::vector<int64_t> place(is_used_.size());  // of each sample among the used ones, in the files' order
  int64_t places = 0;
  const auto reader = open();
  for_each_used(*reader, [&](const std::string& text, int64_t sample) {
    builder.add(tokenizer.encode_review(text, sequence), labels_.of_sample[static_cast<size_t>(sample)]);
    place[static_cast<size_t>(sample)] = places++;
  });
  dropped_bytes_ = reader->dropped_bytes();
  data::TokenStore store = builder.finish();
  if (source_.samples == 0) return store;
  std::vector<int64_t> order;
  for (const int64_t sample : order_) order.push_back(place[static_cast<size_t>(sample)]);
  return data::selected(store, order);
}

std::unique_ptr<data::SampleReader> TextPart::open() const {
  if (source_.data != "sample") return data::open_samples(source_.data, part_, source_.columns);
  require(source_.columns.text.empty() && source_.columns.label.empty(),
          "--text-column and --label-column name columns, but --data sample has no columns");
  return data::open_sample_corpus(part_);
}

/// Calls visit(text, sample) in the files' order, up to the last sample, so that errors at the files' end are reported too.
template <class Visit>
void TextPart::for_each_used(data::SampleReader& reader, Visit visit) const {
  size_t sample = 0;
  for (data::Sample read; reader.next(read); ++sample)
    if (sample < is_used_.size() && is_used_[sample]) visit(read.text, static_cast<int64_t>(sample));
  require(sample == is_used_.size(), [&] { return source_.data + ": has changed while it was read"; });
}

}  // namespace adjoin::train
