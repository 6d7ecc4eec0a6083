#include "adjoin/data/tokenizer/tokenizer_folder.hpp"

#include <filesystem>

#include "adjoin/data/tokenizer/bpe_vocabulary.hpp"
#include "adjoin/data/tokenizer/tokenizer_files.hpp"

namespace adjoin::data {
namespace {

namespace fs = std::filesystem;

/// Adds the ends of a text, which another file of the folder names, to a decoder's tokenizer.
std::string with_ends(std::string content, const TokenizerJson& ends, const std::string& name) {
  if (ends.empty()) return content;
  TokenizerJson json = parse_json(content, name);
  const auto model = json.find("model");
  require(json.is_object() && model != json.end() && model->is_object(),
          [&] { return name + ": is not a tokenizer: it has no model"; });
  if (type_of(*model) == "WordPiece") return content;  // a classifier's, which ends no text
  (*model)[kEndsField] = ends;
  return json.dump();
}

std::string read_folder(const fs::path& folder, const std::string& wanted) {
  const auto has = [&](const char* file) { return (wanted.empty() || wanted == file) && is_file(folder / file); };
  const TokenizerSettings settings(folder);
  const fs::path json = folder / "tokenizer.json", merges = folder / "merges.txt";
  if (has("tokenizer.json")) return with_ends(read_tokenizer_file(json), settings.ends(), json.string());
  if ((has("vocab.json") || has("merges.txt")) && is_file(folder / "vocab.json") && is_file(merges))
    return with_ends(from_vocab_json(folder / "vocab.json", merges, settings), settings.ends(), merges.string());
  if (has("vocab.txt")) return from_vocab_txt(folder / "vocab.txt", settings);
  const fs::path model = folder / "tokenizer.model";
  if (has("tokenizer.model")) return with_ends(from_tokenizer_model(model, settings), settings.ends(), model.string());
  throw InvalidArgument(folder.string() +
                        ": is a folder without a tokenizer; expected tokenizer.json, vocab.json with " +
                        "merges.txt, vocab.txt or tokenizer.model");
}

}  // namespace

bool is_tokenizer(const std::string& path) {
  const fs::path name = fs::path(path).filename();
  return is_folder(path) || name.extension() == ".json" || name == "merges.txt" || name == "tokenizer.model";
}

bool is_classifiers(std::string_view content) {
  // Quotes in a piece are escaped, so no piece contains these strings.
  constexpr std::string_view kType = "\"type\"", kWordPiece = "\"WordPiece\"";
  for (size_t at = 0; (at = content.find(kType, at)) != std::string_view::npos;) {
    at = content.find_first_not_of(" \t\r\n:", at + kType.size());
    if (at != std::string_view::npos && content.substr(at).starts_with(kWordPiece)) return true;
  }
  return false;
}

std::string read_tokenizer(const std::string& path) {
  return reading_json(path, [&] {
    if (is_folder(path)) return read_folder(path, "");
    const fs::path file(path), folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
    const std::string name = file.filename().string();
    const bool is_usual =
        name == "tokenizer.json" || name == "vocab.json" || name == "merges.txt" || name == "tokenizer.model";
    if (!is_usual) return read_tokenizer_file(path);
    require(is_file(file), [&] { return path + ": cannot open the tokenizer: it is not a file"; });
    return read_folder(folder, name);
  });
}

}  // namespace adjoin::data
