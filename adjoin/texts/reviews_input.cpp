#include "adjoin/texts/reviews_input.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/data/sample_corpus.hpp"
#include "adjoin/data/token_cache.hpp"
#include "adjoin/data/vocabulary.hpp"
#include "adjoin/hugging_face/pretrained.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/store/read_checkpoint.hpp"
#include "adjoin/store/read_text.hpp"
#include "adjoin/texts/trained_texts.hpp"

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

namespace {

using Json = nlohmann::ordered_json;

void warn_of_dropped_bytes(const std::string& data, int64_t bytes) {
  if (bytes > 0)
    warn(data + ": " +
         (bytes == 1 ? "1 byte was not UTF-8 and was dropped"
                     : grouped(bytes) + " bytes were not UTF-8 and were dropped"));
}

void warn_of_one_class(const std::string& data, const data::ClassNames& classes, const data::TokenStore& train) {
  for (int64_t sample = 1; sample < train.size(); ++sample)
    if (train.label(sample) != train.label(0)) return;
  warn(data + ": all training texts are " + classes.name(train.label(0)) + ", so there is nothing to tell apart");
}

/// What is known before the texts are read: for a resumed run everything, else what the configuration names.
struct Given {
  std::optional<data::WordPiece> tokenizer;
  std::optional<data::ClassNames> classes;
};

/// The words of the model with which a training begins, and its classes if the texts have the same ones.
Given given_by_beginning(const std::string& from, const TextSource& source) {
  Given given;
  model_folder({from})->read([&](const std::filesystem::path& folder) {
    Words words = read_words(folder);
    given = {std::move(words.tokenizer), std::move(words.classes)};
  });
  const TextPart texts(source, data::Part::train, std::nullopt);
  for (const std::string& name : texts.classes().names())
    if (given.classes && !given.classes->find(name)) given.classes.reset();
  return given;
}

Given given_by(const Configuration& configuration, const TextSource& source) {
  if (!configuration.resume.empty()) {
    Given given;
    read_checkpoint({configuration.resume, configuration.step}, {}, [&](const SavedCheckpoint& checkpoint) {
      Words words = read_words(checkpoint.folder);
      given = {std::move(words.tokenizer), std::move(words.classes)};
    });
    return given;
  }
  if (!configuration.from.empty()) return given_by_beginning(configuration.from, source);
  if (!configuration.vocab.empty()) return {data::WordPiece::load(configuration.vocab), std::nullopt};
  return {};
}

Json described(const data::WordPiece& tokenizer) {
  uint64_t hash = 0;
  for (int64_t id = 0; id < tokenizer.size(); ++id) hash = mix(hash + hash_of(tokenizer.piece(id)));
  if (tokenizer.file() != std::string(data::WordPiece::kPlainFile)) hash = mix(hash + hash_of(tokenizer.content()));
  return {{"pieces", tokenizer.size()}, {"hash", hash}};
}

/// What decides the tokens of one part of a source; `vocabulary` describes a tokenizer, or how one is learned. Null for the
/// embedded corpus, which is generated as quickly as it could be read.
Json request_of(const TextSource& source, data::Part part, const Json& vocabulary,
                const std::optional<data::ClassNames>& classes, int64_t sequence) {
  if (source.data == "sample") return {};
  return {{"files", data::identity_of(source.data, part)},
          {"samples", source.samples},
          {"splits", source.splits},
          {"part", part == data::Part::train ? "train" : "test"},
          {"text_column", source.columns.text},
          {"label_column", source.columns.label},
          {"sequence", sequence},
          {"vocabulary", vocabulary},
          {"classes", classes ? Json(classes->names()) : Json()}};
}

/// What is stored with the tokens of a part.
Json about(const TextPart& texts, const data::WordPiece& tokenizer, bool is_learned) {
  Json pieces;
  for (int64_t id = 0; is_learned && id < tokenizer.size(); ++id) pieces.push_back(tokenizer.piece(id));
  return {{"classes", texts.classes().names()}, {"dropped_bytes", texts.dropped_bytes()}, {"pieces", pieces}};
}

/// Tokenizes a part that the cache lacks, and puts it there. If that fails, `trouble` says why.
data::KeptTokens tokenize(TextPart& texts, const data::WordPiece& tokenizer, bool is_learned, int64_t sequence,
                          const Json& request, std::string& trouble) {
  data::TokenStore tokens = texts.tokenize(tokenizer, sequence);
  data::KeptTokens kept{std::move(tokens), about(texts, tokenizer, is_learned)};
  if (request.is_null()) return kept;
  try {
    data::keep_tokens(request, kept.about, kept.tokens, tokenizer.size());
  } catch (const IoError& error) {
    trouble = error.what();
  }
  return kept;
}

int64_t dropped_bytes(const data::KeptTokens& kept) {
  return kept.about.at("dropped_bytes").get<int64_t>();
}

data::WordPiece learned_from(const TextPart& texts, int64_t size) {
  data::WordCounter words;
  texts.count_words(words);
  return data::WordPiece(data::learn_vocabulary(words, {.size = size}));
}

void say_counts(const std::string& data, int64_t train, int64_t test, int64_t classes) {
  say(grouped(train) + " training and " + counted(test, "test text") + " from " + data +
      (classes == 2 ? "" : ", in " + counted(classes, "class", "classes")));
}

void say_where_tokens_are(bool are_mapped, const std::string& trouble) {
  const std::string folder = data::cache_folder().value_or("").string();
  if (are_mapped)
    say("tokens mapped from " + folder + ", where an earlier start kept them");
  else
    say(trouble.empty() ? "tokens kept in " + folder + " for the next start" : "tokens not kept: " + trouble);
}

}  // namespace

Words read_words(const std::filesystem::path& folder) {
  const auto model = model_folder({folder});
  return {
      data::WordPiece::load(model->tokenizer(folder, {data::WordPiece::kFile, data::WordPiece::kPlainFile}).string()),
      model->classes(folder), text_or_nothing(folder / kTextsFile)};
}

TrainingInput read_training_input(const Configuration& c) {
  TextSource source;
  source.data = c.data;
  source.columns.text = c.text_column;
  source.columns.label = c.label_column;
  source.samples = c.samples;
  source.splits = c.test.empty() && data::is_one_source(c.data);
  TextSource test_source = source;
  if (!c.test.empty()) test_source.data = c.test;
  auto [tokenizer, given_classes] = given_by(c, source);
  const bool is_learned = !tokenizer;
  const auto request = [&](data::Part part, const Json& vocabulary, const std::optional<data::ClassNames>& classes) {
    return request_of(part == data::Part::train ? source : test_source, part, vocabulary, classes, c.sequence);
  };
  const Json train_request = request(
      data::Part::train, is_learned ? Json{{"learned", c.vocabulary_size}} : described(*tokenizer), given_classes);

  std::optional<data::KeptTokens> train = data::find_tokens(train_request), test;
  const bool is_train_mapped = train.has_value();
  std::optional<TextPart> train_texts, test_texts;
  if (!train) train_texts.emplace(source, data::Part::train, given_classes);
  const data::ClassNames classes = train ? data::ClassNames(train->about.at("classes")) : train_texts->classes();
  if (train && is_learned) tokenizer.emplace(train->about.at("pieces").get<std::vector<std::string>>());
  if (tokenizer) test = data::find_tokens(request(data::Part::test, described(*tokenizer), classes));
  const bool is_test_mapped = test.has_value();
  if (!test) test_texts.emplace(test_source, data::Part::test, classes);
  if (source.splits) say("every tenth text of each class in " + c.data + " is held out for testing");
  say_counts(c.test.empty() ? c.data : c.data + " and " + c.test, train ? train->tokens.size() : train_texts->size(),
             test ? test->tokens.size() : test_texts->size(), classes.size());

  if (!tokenizer) tokenizer = learned_from(*train_texts, c.vocabulary_size);
  say("vocabulary of " + grouped(tokenizer->size()) + " pieces" +
      (is_learned ? ", learned from the training texts" : ""));
  std::string trouble;
  if (!train) train = tokenize(*train_texts, *tokenizer, is_learned, c.sequence, train_request, trouble);
  if (!test)
    test = tokenize(*test_texts, *tokenizer, /*is_learned=*/false, c.sequence,
                    request(data::Part::test, described(*tokenizer), classes), trouble);
  if (!train_request.is_null()) say_where_tokens_are(is_train_mapped && is_test_mapped, trouble);
  warn_of_dropped_bytes(c.data, dropped_bytes(*train) + dropped_bytes(*test));
  warn_of_one_class(c.data, classes, train->tokens);
  return {{*std::move(tokenizer), classes, texts_file_of(c)}, std::move(train->tokens), std::move(test->tokens)};
}

data::TokenStore read_test_input(const TextSource& source, const Words& words, int64_t sequence) {
  const data::WordPiece& tokenizer = words.tokenizer;
  const data::ClassNames& classes = words.classes;
  const Json request = request_of(source, data::Part::test, described(tokenizer), classes, sequence);
  std::optional<data::KeptTokens> test = data::find_tokens(request);
  std::string trouble;  // only training prints it
  if (!test) {
    TextPart texts(source, data::Part::test, classes);
    test = tokenize(texts, tokenizer, /*is_learned=*/false, sequence, request, trouble);
  }
  warn_of_dropped_bytes(source.data, dropped_bytes(*test));
  return std::move(test->tokens);
}

}  // namespace adjoin::train
