#include <sstream>
#include <utility>

#include "adjoin/data/tokenizer/character_classes.hpp"
#include "adjoin/data/tokenizer/class_tokenizers.hpp"

namespace adjoin::data {
namespace {

namespace fs = std::filesystem;

/// The lines of a text without the white space at their ends.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(std::string(without_spaces_at_end(line)));
  return lines;
}

}  // namespace

TokenizerSource source_of_tokenizer_json(const std::string& content, const std::string& file) {
  TokenizerSource source{.file = file, .json = parse_json(content, file), .vocabulary = {}, .merges = {}, .model = {}};
  const auto model = source.json.find("model");
  require(source.json.is_object() && model != source.json.end() && model->is_object(),
          [&] { return file + ": is not a tokenizer: it has no model"; });
  if (const auto vocabulary = model->find("vocab"); vocabulary != model->end())
    source.vocabulary = std::exchange(*vocabulary, nullptr);
  return source;
}

TokenizerSource source_of_vocab_json(const fs::path& vocab, const fs::path& merges) {
  TokenizerSource source{.file = merges.string(),
                         .json = {},
                         .vocabulary = parse_json(read_tokenizer_file(vocab), vocab.string()),
                         .merges = TokenizerJson::array(),
                         .model = {}};
  require(source.vocabulary.is_object(),
          [&] { return vocab.string() + ": expected a JSON object of pieces and their ids"; });
  for (const std::string& line : lines_of(read_tokenizer_file(merges)))
    if (!line.empty() && !line.starts_with("#version")) source.merges.push_back(line);
  return source;
}

TokenizerSource source_of_vocab_txt(const fs::path& path) {
  TokenizerSource source{
      .file = path.string(), .json = {}, .vocabulary = TokenizerJson::object(), .merges = {}, .model = {}};
  size_t id = 0;
  for (const std::string& piece : lines_of(read_tokenizer_file(path))) {
    TokenizerJson& its = source.vocabulary[piece];
    require(its.is_null() || piece.empty(), [&] {
      return path.string() + ": line " + std::to_string(id + 1) + " repeats " + in_quotes(piece) + " of line " +
             std::to_string(its.get<size_t>() + 1);
    });
    its = id++;
  }
  return source;
}

TokenizerSource source_of_tokenizer_model(const fs::path& path) {
  TokenizerSource source{.file = path.string(),
                         .json = {},
                         .vocabulary = TokenizerJson::object(),
                         .merges = TokenizerJson::array(),
                         .model = read_sentencepiece_model(read_tokenizer_file(path), path.string())};
  require(source.model->is_bpe, [&] { return source.file + ": model \"Unigram\" is not supported; expected \"BPE\""; });
  for (size_t id = 0; id < source.model->pieces.size(); ++id) source.vocabulary[source.model->pieces[id].text] = id;
  return source;
}

}  // namespace adjoin::data
