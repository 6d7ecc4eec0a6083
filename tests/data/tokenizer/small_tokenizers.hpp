#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace adjoin::data {

/// A decoder's tokenizer of bytes: of a, b, c, digits, a space and so on, and of few merges.
inline nlohmann::json small_decoder() {
  using Json = nlohmann::json;
  Json vocabulary = Json::object();
  for (
      const char* piece :
      {"<|endoftext|>", "a",      "b",      "c",      "ab", "abc", "\u0120", "\u0120ab", "1", "2", "12", "'", "s", "'s",
       "\u010a",        "\u00e4", "\u00b8", "\u0143", "<",  ">",   "|",      "e",        "n", "d"})
    vocabulary[piece] = vocabulary.size();
  return {{"version", "1.0"},
          {"added_tokens", Json::array({{{"id", 0},
                                         {"content", "<|endoftext|>"},
                                         {"single_word", false},
                                         {"lstrip", false},
                                         {"rstrip", false},
                                         {"normalized", false},
                                         {"special", true}}})},
          {"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"post_processor", {{"type", "ByteLevel"}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"vocab", vocabulary},
            {"merges", Json::array({"a b", "ab c", "\u0120 ab", "1 2", "' s"})}}}};
}

/// A decoder's tokenizer of characters, with pieces for some bytes.
inline nlohmann::json small_decoder_of_characters() {
  using Json = nlohmann::json;
  Json json = small_decoder();
  Json vocabulary = Json::object();
  for (const char* piece :
       {"<unk>", "</s>", "a", "b", "c", "ab", "\u2581", "\u2581ab", "<0xE4>", "<0xB8>", "<0xAD>", "<0x0A>", "\u4e2d"})
    vocabulary[piece] = vocabulary.size();
  json["added_tokens"][0]["content"] = "</s>";
  json["added_tokens"][0]["id"] = 1;
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}, {"split", false}};
  json["post_processor"] = nullptr;
  json["decoder"] = nullptr;
  json["model"] = {{"type", "BPE"},         {"unk_token", "<unk>"}, {"fuse_unk", true},
                   {"byte_fallback", true}, {"vocab", vocabulary},  {"merges", Json::array({"a b", "\u2581 ab"})}};
  return json;
}

/// A classifier's tokenizer, cased.
inline nlohmann::json small_classifier() {
  using Json = nlohmann::json;
  Json vocabulary = Json::object();
  for (const char* piece : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b", "Ab", "\u00e9"})
    vocabulary[piece] = vocabulary.size();
  Json json = small_decoder();
  json["added_tokens"][0]["content"] = "[SEP]";
  json["added_tokens"][0]["id"] = 3;
  json["normalizer"] = {{"type", "BertNormalizer"}, {"clean_text", true}, {"lowercase", false}};
  json["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  json["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", 2}}};
  json["decoder"] = {{"type", "WordPiece"}};
  json["model"] = {{"type", "WordPiece"},
                   {"unk_token", "[UNK]"},
                   {"continuing_subword_prefix", "##"},
                   {"max_input_chars_per_word", 100},
                   {"vocab", vocabulary}};
  return json;
}

}  // namespace adjoin::data
