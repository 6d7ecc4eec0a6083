#include "adjoin/hugging_face/export_tokenizer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/data/tokenizer/bpe_vocabulary.hpp"
#include "adjoin/data/tokenizer/tokenizer_json.hpp"
#include "adjoin/data/tokenizer/word_pattern.hpp"
#include "adjoin/hugging_face/pretrained.hpp"
#include "adjoin/store/read_text.hpp"

namespace adjoin::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kTokenizer = "tokenizer.json", *kTokenizerConfig = "tokenizer_config.json";

Json configuration_of_tokenizer(int64_t context) {
  Json json{{"tokenizer_class", "PreTrainedTokenizerFast"}};
  if (context > 0) json["model_max_length"] = context;
  return json;
}

/// A tokenizer.json without the fields that adjoin alone knows; what they say goes to the configuration.
std::string content_for_transformers(const std::string& content, Json& of_tokenizer) {
  if (content.find("\"adjoin_") == std::string::npos) return content;
  auto json = nlohmann::json::parse(content);
  nlohmann::json& model = json["model"];
  if (model.value(data::kSplitsField, false)) of_tokenizer["split_special_tokens"] = true;
  for (const char* field : {data::kSplitsField, data::kEndsField}) model.erase(field);
  return json.dump();
}

/// Whether transformers 5 gives the ids of a tokenizer also as that of a qwen2, of which it reads only the pieces, merges, added
/// tokens and post-processor: the rest is in its class Qwen2Tokenizer, which adds "<|endoftext|>" where it is missing.
bool is_of_qwen2(const data::TokenizerJson& tokenizer) {
  const data::TokenizerJson& model = data::field(tokenizer, "model");
  bool has_nfc = false, has_others = data::flag(model, "ignore_merges"), has_pattern = false;
  data::for_each_part(data::field(tokenizer, "normalizer"), "normalizers", [&](const data::TokenizerJson& part) {
    (data::type_of(part) == "NFC" ? has_nfc : has_others) = true;
  });
  data::for_each_part(data::field(tokenizer, "pre_tokenizer"), "pretokenizers", [&](const data::TokenizerJson& part) {
    const std::string type = data::type_of(part);
    if (type == "Split" && data::text_field(data::field(part, "pattern"), "Regex") == data::kQwen2Pattern)
      has_pattern = true;
    else if (type != "ByteLevel" || data::flag(part, "add_prefix_space", true) || data::flag(part, "use_regex", true))
      has_others = true;
  });
  const data::TokenizerJson& added = data::field(tokenizer, "added_tokens");
  return has_nfc && has_pattern && !has_others && std::ranges::any_of(added, [](const data::TokenizerJson& token) {
           return data::text_field(token, "content") == "<|endoftext|>";
         });
}

/// For ids that are missing in config.json transformers would use its own. A text without a beginning of its own begins behind
/// the end of another.
void name_ends(const data::TextVocabulary& vocabulary, Json& config) {
  const std::vector<int64_t> beginning = vocabulary.beginning(), ends = vocabulary.ends();
  config["bos_token_id"] = beginning.empty() ? vocabulary.end_of_document() : beginning.front();
  config["eos_token_id"] = ends.size() == 1 ? Json(ends.front()) : Json(ends);
}

}  // namespace

std::vector<TaskFile> tokenizer_files(const data::WordPiece& words, int64_t context, Json& config) {
  Json of_tokenizer = configuration_of_tokenizer(context);
  of_tokenizer["unk_token"] = words.piece(words.unknown_id());
  of_tokenizer["cls_token"] = words.piece(words.class_id());
  of_tokenizer["sep_token"] = words.piece(words.separator_id());
  of_tokenizer["pad_token"] = words.piece(words.padding_id());
  config["pad_token_id"] = words.padding_id();
  const std::string content = content_for_transformers(words.json(), of_tokenizer);
  return {{kTokenizer, content}, {kTokenizerConfig, of_tokenizer.dump(2) + "\n"}};
}

std::vector<TaskFile> tokenizer_files(const data::TextVocabulary& vocabulary, int64_t context, Json& config) {
  name_ends(vocabulary, config);
  if (!vocabulary.content().starts_with('{')) return {};
  require(config.at("model_type") != "qwen2" || is_of_qwen2(data::TokenizerJson::parse(vocabulary.content())),
          "transformers gives every qwen2 the tokenizer of Qwen 2, whose tokens are others than those of this model's "
          "vocabulary; --attention-bias none or all makes a llama, which may have any tokenizer");
  Json of_tokenizer = configuration_of_tokenizer(context);
  const std::string content = content_for_transformers(vocabulary.content(), of_tokenizer);
  const auto added = nlohmann::json::parse(content)["added_tokens"];
  const auto name_token = [&](int64_t id, const char* role) {
    for (const auto& token : added)
      if (token["id"] == id) of_tokenizer[role] = token["content"];
  };
  name_token(vocabulary.end_of_document(), "eos_token");
  if (const std::vector<int64_t> beginning = vocabulary.beginning(); !beginning.empty())
    name_token(beginning.front(), "bos_token");
  return {{kTokenizer, content}, {kTokenizerConfig, of_tokenizer.dump(2) + "\n"}};
}

std::vector<TaskFile> copied_tokenizer_files(const std::filesystem::path& folder,
                                             const data::TextVocabulary* vocabulary, Json& config) {
  std::vector<TaskFile> files;
  for (const char* name :
       {kTokenizer, kTokenizerConfig, "special_tokens_map.json", "added_tokens.json", "vocab.txt", "vocab.json",
        "merges.txt", "tokenizer.model", "chat_template.jinja", "generation_config.json"})
    if (std::filesystem::exists(folder / name)) files.push_back({name, read_text(folder / name)});
  if (vocabulary != nullptr) name_ends(*vocabulary, config);
  const Json original = read_config(folder);
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (const auto found = original.find(key); found != original.end() && !found->is_null()) config[key] = *found;
  return files;
}

}  // namespace adjoin::train
