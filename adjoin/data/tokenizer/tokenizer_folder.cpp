#include "adjoin/data/tokenizer/tokenizer_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "adjoin/data/tokenizer/added_vocabulary.hpp"
#include "adjoin/data/tokenizer/bpe_vocabulary.hpp"
#include "adjoin/data/tokenizer/class_tokenizers.hpp"

namespace adjoin::data {
namespace {

namespace fs = std::filesystem;

/// Keys of tokenizer_config.json that name code or parts which are not read here.
void refuse_unknown_settings(const SideFiles& files, const std::string& folder) {
  for (const char* key :
       {"auto_map", "fast_tokenizer_files", "fix_mistral_regex", "init_inputs", "vocab", "merges", "post_processor"}) {
    const TokenizerJson& value = field(files.config.json, key);
    const bool counts = std::string_view(key) == "auto_map" && value.is_object() ? value.contains("AutoTokenizer")
                                                                                 : !value.empty() && value != false;
    require(!counts, [&] {
      return folder + "/tokenizer_config.json: \"" + key + "\": " + excerpt(value.dump()) + " is not supported";
    });
  }
}

/// The files from which transformers reads a tokenizer of a class, beside tokenizer.json.
const char* file_of(TokenizerClass its) {
  switch (its) {
    case TokenizerClass::bert:
      return "vocab.txt";
    case TokenizerClass::gpt2:
    case TokenizerClass::qwen2:
      return "vocab.json with merges.txt";
    default:
      return "tokenizer.model";
  }
}

/// The tokens that begin and end a text, if the settings ask for them (add_bos_token, add_eos_token).
TokenizerJson around_texts(const SideFiles& files, const SpecialTokens& special, const AddedVocabulary& added) {
  const auto wanted = [&](const char* key, const char* role) {
    return files.flag(key, false) ? special.text_of(role) : std::string();
  };
  return template_of(wanted("add_bos_token", "bos_token"), wanted("add_eos_token", "eos_token"), added, false);
}

std::string made(TokenizerClass its, TokenizerSource source, const SideFiles& files) {
  const bool has_json = !source.json.is_null(), is_bert = its == TokenizerClass::bert;
  SpecialTokens special(files, field(source.json, "added_tokens"));
  TokenizerJson made = parts_by_class(its, source, files, special);
  AddedVocabulary added(source.vocabulary);
  if (has_json && its == TokenizerClass::as_it_is)
    for (const AddedToken& token : added_tokens_of(source.json)) added.add(token);
  for (const AddedToken& token : special.to_add(added.tokens())) added.add(token);
  if (its == TokenizerClass::qwen2)
    for (const std::string& text : special.texts()) added.add({.content = text, .special = true});

  made["added_tokens"] = TokenizerJson::array();
  for (const AddedToken& token : added.tokens()) made["added_tokens"].push_back(json_of(token));
  if (is_bert) {
    const std::string first = special.text_of("cls_token"), last = special.text_of("sep_token");
    require(!first.empty() && !last.empty() && !special.text_of("unk_token").empty(), [&] {
      return source.file + ": a BertTokenizer without unk_token, cls_token or sep_token is not supported";
    });
    made["post_processor"] = template_of(first, last, added, true);
  } else {
    made["post_processor"] = has_json ? field(source.json, "post_processor") : around_texts(files, special, added);
  }
  TokenizerJson& model = made["model"];
  model["vocab"] = std::move(source.vocabulary);
  const bool ends_texts = text_field(model, "type") != "WordPiece" && !model.contains("max_input_chars_per_word");
  if (ends_texts)
    if (TokenizerJson ends = files.ends(special.text_of("eos_token")); !ends.empty())
      model[kEndsField] = std::move(ends);
  if (files.flag("split_special_tokens", false)) model[kSplitsField] = true;
  return made.dump();
}

/// The class that reads an older file where the folder names none.
TokenizerClass class_of_file(const std::string& file) {
  return file == "vocab.txt"         ? TokenizerClass::bert
         : file == "tokenizer.model" ? TokenizerClass::as_it_is
                                     : TokenizerClass::gpt2;
}

std::string read_folder(const fs::path& folder, const std::string& wanted) {
  const std::string name = folder.string();
  const auto has = [&](const char* file) { return (wanted.empty() || wanted == file) && is_file(folder / file); };
  const SideFiles files(folder);
  refuse_unknown_settings(files, name);
  if (has("tokenizer.json")) {
    const std::string file = (folder / "tokenizer.json").string(), content = read_tokenizer_file(file);
    const bool is_byte_level = content.find("\"ByteLevel\"") != std::string::npos;
    const TokenizerClass its = tokenizer_class(files.config.json, files.model, is_byte_level, name);
    TokenizerSource source = source_of_tokenizer_json(content, file);
    return made(its == TokenizerClass::unnamed ? TokenizerClass::as_it_is : its, std::move(source), files);
  }
  std::vector<std::string> there;
  if ((has("vocab.json") || has("merges.txt")) && is_file(folder / "vocab.json") && is_file(folder / "merges.txt"))
    there.push_back("vocab.json with merges.txt");
  for (const char* file : {"vocab.txt", "tokenizer.model"})
    if (has(file)) there.push_back(file);
  require(!there.empty(), [&] {
    return name + ": is a folder without a tokenizer; expected tokenizer.json, vocab.json with merges.txt, vocab.txt " +
           "or tokenizer.model";
  });
  TokenizerClass its = tokenizer_class(files.config.json, files.model, false, name);
  if (its == TokenizerClass::unnamed) its = class_of_file(there.front());
  const std::string expected = file_of(its);
  require(std::find(there.begin(), there.end(), expected) != there.end(), [&] {
    return name + ": transformers reads a " + name_of(its) + " from tokenizer.json or " + expected + ", but there is " +
           joined(there);
  });
  // Without a tokenizer.json transformers takes one of these files for the vocabulary of any class.
  for (const char* other : {"tokenizer.model", "tekken.json", "tiktoken.model"})
    require(expected == other || !wanted.empty() || !is_file(folder / other),
            [&] { return name + ": " + other + " beside " + expected + " is not supported; expected one tokenizer"; });
  if (its == TokenizerClass::bert) return made(its, source_of_vocab_txt(folder / "vocab.txt"), files);
  if (expected == "tokenizer.model") return made(its, source_of_tokenizer_model(folder / expected), files);
  return made(its, source_of_vocab_json(folder / "vocab.json", folder / "merges.txt"), files);
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
