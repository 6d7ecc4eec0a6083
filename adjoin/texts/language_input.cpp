#include "adjoin/texts/language_input.hpp"

#include <nlohmann/json.hpp>
#include <optional>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/data/token_cache.hpp"
#include "adjoin/data/token_folder.hpp"
#include "adjoin/hugging_face/pretrained.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/store/read_checkpoint.hpp"
#include "adjoin/texts/trained_texts.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Vocabulary = std::shared_ptr<const data::TextVocabulary>;

/// The vocabulary if it is known before the documents are read; null if it is learned from them.
Vocabulary given_vocabulary(const Configuration& c) {
  if (!c.resume.empty()) {
    Vocabulary vocabulary;
    read_checkpoint({c.resume, c.step}, {},
                    [&](const SavedCheckpoint& checkpoint) { vocabulary = read_vocabulary(checkpoint.folder); });
    return vocabulary;
  }
  if (!c.from.empty()) {
    Vocabulary vocabulary;
    model_folder({c.from})->read([&](const fs::path& folder) { vocabulary = read_vocabulary(folder); });
    return vocabulary;
  }
  return data::named_text_vocabulary(c.vocab);
}

/// What decides the tokens of documents; null for the embedded corpus, which is generated as quickly as it could be read.
Json request_of(const data::DocumentSource& source, const Json& vocabulary) {
  if (source.data == "sample") return {};
  const Json test = source.test.empty() ? Json() : data::identity_of_files(source.test);
  Json request = {{"documents", data::identity_of_files(source.data)},
                  {"test", test},
                  {"text_column", source.text_column},
                  {"vocabulary", vocabulary}};
  const bool cuts = data::has_paragraphs(source.data) || (!source.test.empty() && data::has_paragraphs(source.test));
  if (cuts) request["between_paragraphs"] = "white space";  // earlier versions: empty lines
  return request;
}

/// None where there is no folder, or a damaged one.
std::optional<data::TokenFolder> find_token_folder(const fs::path& place) {
  if (!data::is_token_folder(place.string())) return std::nullopt;
  try {
    return data::open_token_folder(place.string());
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
}

/// Removes a damaged folder from its place in the cache. It is first moved aside and examined again there, since another
/// process may just have put a complete folder into the place.
/// Throws: IoError
void clear_place(const fs::path& place) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(place, error))) return;
  const fs::path aside = place.string() + ".damaged-" + new_checkpoint_name();
  fs::rename(place, aside, error);
  if (error == std::errc::no_such_file_or_directory) return;
  if (error) throw IoError(place.string() + ": is damaged and cannot be replaced: " + error.message());
  if (find_token_folder(aside)) {
    fs::rename(aside, place, error);
    if (!error) return;
  }
  fs::remove_all(aside, error);  // leftovers do not matter
}

/// Puts documents into the cache and returns their tokens; if that fails, `trouble` says why.
std::optional<data::TokenFolder> keep_token_folder(const fs::path& place, const data::Documents& documents,
                                                   const data::TextVocabulary& vocabulary, std::string& trouble) {
  try {
    std::error_code none;
    fs::create_directories(place.parent_path(), none);
    clear_place(place);
    data::write_token_folder(place.string(), documents, vocabulary);
  } catch (const IoError& error) {
    trouble = error.what();
    return std::nullopt;
  } catch (const InvalidArgument&) {
    if (!fs::exists(place)) throw;  // else another process of this job was faster
  }
  auto folder = find_token_folder(place);
  if (!folder) trouble = place.string() + ": another process has put something else there";
  return folder;
}

/// `name`: what messages call it.
LanguageInput of_folder(data::TokenFolder folder, const std::string& name) {
  folder.train.name = folder.test.name = name;
  return {std::move(folder.vocabulary), std::move(folder.train), std::move(folder.test)};
}

void say_counts(const std::string& data, const LanguageInput& input) {
  say(grouped(input.train.counts.documents) + " training and " + grouped(input.test.counts.documents) +
      " test documents from " + data + ", " + grouped(input.train.counts.tokens) + " and " +
      grouped(input.test.counts.tokens) + " tokens");
  say("vocabulary of " + grouped(input.vocabulary->size()) + " pieces");
}

LanguageInput read_documents(const data::DocumentSource& source, Vocabulary vocabulary, int64_t learned_size) {
  const Json request =
      request_of(source, vocabulary ? Json{{"hash", vocabulary->hash()}} : Json{{"learned", learned_size}});
  const std::optional<fs::path> place = request.is_null() ? std::nullopt : data::cache_place(request, ".documents");
  if (place) {
    if (auto folder = find_token_folder(*place)) {
      say("tokens mapped from " + place->parent_path().string() + ", where an earlier start kept them");
      return of_folder(*std::move(folder), source.data);
    }
  }
  const data::Documents documents(source);
  if (!vocabulary) vocabulary = data::learn_subwords(documents, {.size = learned_size});
  std::string trouble = data::kNoCacheFolder;
  if (place) {
    if (auto folder = keep_token_folder(*place, documents, *vocabulary, trouble)) {
      say("tokens kept in " + place->parent_path().string() + " for the next start");
      return of_folder(*std::move(folder), source.data);
    }
  }
  if (!request.is_null()) say("tokens not kept: " + trouble);
  const auto held = [&](data::Part part) {
    return data::hold_document_tokens(source.data, *documents.open(part), *vocabulary);
  };
  return {vocabulary, held(data::Part::train), held(data::Part::test)};
}

}  // namespace

std::shared_ptr<const data::TextVocabulary> read_vocabulary(const fs::path& folder) {
  return data::load_text_vocabulary(model_folder({folder})->tokenizer(folder, {data::kVocabularyFile}).string());
}

LanguageInput read_language_input(const Configuration& c) {
  const Vocabulary given = given_vocabulary(c);
  LanguageInput input;
  if (data::is_token_folder(c.data)) {
    require(c.test.empty() && c.text_column.empty(),
            "--test and --text-column are for documents; --data " + c.data + " holds tokens, with their test part");
    input = of_folder(data::open_token_folder(c.data), c.data);
    require(!given || given->hash() == input.vocabulary->hash(), [&] {
      return "--data " + c.data + ": its tokens are of another vocabulary than " +
             (!c.resume.empty() ? "the run's in " + c.resume
              : !c.from.empty() ? "the model's in " + c.from
                                : "--vocab " + c.vocab);
    });
  } else {
    input = read_documents({c.data, c.test, c.text_column}, given, c.vocabulary_size);
  }
  say_counts(c.data, input);
  input.texts_file = texts_file_of(c);
  return input;
}

data::DocumentTokens read_language_test(const TextSource& source, const data::TextVocabulary& vocabulary) {
  if (data::is_token_folder(source.data)) {
    data::TokenFolder folder = data::open_token_folder(source.data);
    require(folder.vocabulary->hash() == vocabulary.hash(),
            [&] { return "--data " + source.data + ": its tokens are of another vocabulary than the model's"; });
    return std::move(folder.test);
  }
  const data::Documents documents({source.data, source.splits ? "" : source.data, source.columns.text});
  return data::hold_document_tokens(source.data, *documents.open(data::Part::test), vocabulary);
}

}  // namespace adjoin::train
