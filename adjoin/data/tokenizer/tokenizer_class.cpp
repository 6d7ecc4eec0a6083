#include "adjoin/data/tokenizer/tokenizer_class.hpp"

#include <algorithm>
#include <optional>

namespace adjoin::data {
namespace {

using enum TokenizerClass;

struct NamedClass {
  const char* name;  // without the "Fast" that some files have behind it
  TokenizerClass its;
};

constexpr NamedClass kClasses[] = {{"BertTokenizer", bert},         {"GPT2Tokenizer", gpt2},
                                   {"Qwen2Tokenizer", qwen2},       {"LlamaTokenizer", llama},
                                   {"TokenizersBackend", as_it_is}, {"PreTrainedTokenizer", as_it_is},
                                   {"DistilBertTokenizer", bert},   {"ElectraTokenizer", bert}};

/// The class of a kind of model (`model_type`); for llama transformers has none.
constexpr NamedClass kModels[] = {
    {"bert", bert},      {"distilbert", bert}, {"electra", bert},      {"gpt2", gpt2},        {"gpt_neo", gpt2},
    {"gptj", gpt2},      {"opt", gpt2},        {"phi", gpt2},          {"qwen2", qwen2},      {"qwen2_moe", qwen2},
    {"qwen3", qwen2},    {"qwen3_moe", qwen2}, {"mistral", as_it_is},  {"mixtral", as_it_is}, {"granite", as_it_is},
    {"olmo2", as_it_is}, {"phi3", as_it_is},   {"stablelm", as_it_is}, {"llama", unnamed}};

std::string without_fast(std::string name) {
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

std::optional<TokenizerClass> find(std::span<const NamedClass> list, const std::string& name) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const NamedClass& its) { return its.name == name; });
  return found == list.end() ? std::nullopt : std::optional(found->its);
}

std::string known_names(std::span<const NamedClass> list) {
  std::vector<std::string> names;
  for (const NamedClass& its : list) names.push_back(its.name);
  return joined(names);
}

TokenizerClass class_of_model(const std::string& type, const std::string& folder) {
  if (type.empty()) return unnamed;
  const auto known = find(kModels, type);
  require(known.has_value(), [&] {
    return folder + "/config.json: \"model_type\": " + in_quotes(type) +
           ": its tokenizers are not known; known are those of " + known_names(kModels);
  });
  return *known;
}

}  // namespace

TokenizerClass tokenizer_class(const TokenizerJson& config, const TokenizerJson& model, bool is_byte_level,
                               const std::string& folder) {
  const std::string type = text_field(model, "model_type");
  const TokenizerClass of_model = class_of_model(type, folder);
  std::string name = text_field(config, "tokenizer_class");
  const char* file = name.empty() ? "/config.json" : "/tokenizer_config.json";
  if (name.empty()) name = text_field(model, "tokenizer_class");
  const bool is_of_its_model = type == "qwen2";  // transformers distrusts what these folders name
  if (is_of_its_model || of_model == as_it_is) return of_model;
  if (name.empty()) return of_model == unnamed && !type.empty() ? as_it_is : of_model;
  const auto named = find(kClasses, without_fast(name));
  require(named.has_value(), [&] {
    return folder + file + ": \"tokenizer_class\": " + in_quotes(name) + " is not supported; expected " +
           known_names(kClasses);
  });
  return *named == llama && is_byte_level ? as_it_is : *named;
}

const char* name_of(TokenizerClass its) {
  const auto found =
      std::find_if(std::begin(kClasses), std::end(kClasses), [&](const NamedClass& c) { return c.its == its; });
  return found == std::end(kClasses) ? "" : found->name;
}

}  // namespace adjoin::data
