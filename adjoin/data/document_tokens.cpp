#include "adjoin/data/document_tokens.hpp"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/data/token_store.hpp"

namespace adjoin::data {
namespace {

using Json = nlohmann::ordered_json;

struct About {
  uint64_t vocabulary;
  DocumentCounts counts;
};

std::string text_of(const About& about) {
  return Json{{"vocabulary", about.vocabulary}, {"documents", about.counts.documents}, {"bytes", about.counts.bytes}}
      .dump();
}

About about_of(const TokenFile& file, const std::string& path) {
  const Json json = Json::parse(file.text, nullptr, /*allow_exceptions=*/false);
  const auto has = [&](const char* key) { return json.contains(key) && json[key].is_number_integer(); };
  const bool is_ours =
      file.tokens.size() == 1 && json.is_object() && has("vocabulary") && has("documents") && has("bytes");
  require(is_ours, [&] { return path + ": is a token file, but does not hold documents"; });
  return {json["vocabulary"], {json["documents"], json["bytes"], file.tokens.length(0)}};
}

/// Calls `take` with the ids of each document, including its beginning and its end.
template <class Take>
DocumentCounts for_each_document(SampleReader& documents, const TextVocabulary& vocabulary, Take take) {
  DocumentCounts counts;
  const std::vector<int64_t> beginning = vocabulary.beginning();
  std::vector<int64_t> ids;
  for (Sample document; documents.next(document);) {
    ids = beginning;
    vocabulary.encode(document.text, ids);
    ids.push_back(vocabulary.end_of_document());
    take(ids);
    ++counts.documents;
    counts.bytes += std::ssize(document.text);
    counts.tokens += std::ssize(ids);
  }
  return counts;
}

DocumentTokens document_tokens(std::string name, TokenStore tokens, const DocumentCounts& counts,
                               const TextVocabulary& vocabulary) {
  return {.name = std::move(name),
          .tokens = std::move(tokens),
          .counts = counts,
          .words = vocabulary.size(),
          .end_of_document = vocabulary.end_of_document()};
}

}  // namespace

std::shared_ptr<const TextVocabulary> learn_subwords(const Documents& documents, const SubwordOptions& options) {
  Sample document;
  int64_t bytes = 0;
  for (const auto reader = documents.open(Part::train); reader->next(document);) bytes += std::ssize(document.text);
  const int64_t stride = (bytes + options.text_bytes - 1) / options.text_bytes;
  const auto reader = documents.open(Part::train);
  const auto next = [&, place = int64_t{0}](std::string& text) mutable {
    while (reader->next(document))
      if (place++ % stride == 0) return text = document.text, true;
    return false;
  };
  return learn_subwords(next, options);
}

DocumentCounts write_document_tokens(const std::filesystem::path& place, SampleReader& documents,
                                     const TextVocabulary& vocabulary) {
  TokenFileWriter file(place, vocabulary.size());
  const DocumentCounts counts =
      for_each_document(documents, vocabulary, [&](const std::vector<int64_t>& ids) { file.append(ids); });
  file.end_sample(0);
  file.publish(text_of({vocabulary.hash(), counts}));
  return counts;
}

DocumentTokens hold_document_tokens(const std::string& name, SampleReader& documents,
                                    const TextVocabulary& vocabulary) {
  std::vector<int64_t> all;
  const DocumentCounts counts = for_each_document(
      documents, vocabulary, [&](const std::vector<int64_t>& ids) { all.insert(all.end(), ids.begin(), ids.end()); });
  TokenStoreBuilder builder(vocabulary.size());
  builder.add(all, /*label=*/0);
  return document_tokens(name, builder.finish(), counts, vocabulary);
}

DocumentTokens map_document_tokens(const std::filesystem::path& path, const TextVocabulary& vocabulary) {
  TokenFile file = map_token_file(path);
  const About about = about_of(file, path.string());
  require(about.vocabulary == vocabulary.hash(),
          [&] { return path.string() + ": holds tokens of another vocabulary"; });
  return document_tokens(path.string(), std::move(file.tokens), about.counts, vocabulary);
}

}  // namespace adjoin::data
