#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "adjoin/data/tokenizer/byte_alphabet.hpp"
#include "adjoin/data/tokenizer/word_pattern.hpp"
#include "tests/cli/program.hpp"
#include "tests/data/tokenizer/small_tokenizers.hpp"

namespace adjoin::test {

/// A tokenizer.json of one piece a byte, "<|endoftext|>" and two merges: 259 pieces.
inline nlohmann::json tokenizer_of_bytes() {
  using Json = nlohmann::json;
  Json vocabulary = {{"<|endoftext|>", 0}};
  for (int character = 0x21; character < 0x180; ++character) {
    const std::string piece = character < 0x80 ? std::string(1, static_cast<char>(character))
                                               : std::string{static_cast<char>(0xC0 | character >> 6),
                                                             static_cast<char>(0x80 | (character & 0x3F))};
    if (data::bytes_of_piece(piece)) vocabulary[piece] = vocabulary.size();
  }
  for (const char* merged : {"th", "the"}) vocabulary[merged] = vocabulary.size();
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  Json json = data::small_decoder();
  json["normalizer"] = json["post_processor"] = nullptr;
  json["pre_tokenizer"] = json["decoder"] = bytes;
  json["model"]["vocab"] = vocabulary;
  json["model"]["merges"] = Json::array({"t h", "th e"});
  return json;
}

/// The same with what transformers gives every qwen2.
inline nlohmann::json tokenizer_of_qwen2() {
  nlohmann::json json = tokenizer_of_bytes();
  nlohmann::json bytes = json["pre_tokenizer"];
  bytes["use_regex"] = false;
  json["normalizer"] = {{"type", "NFC"}};
  const nlohmann::json words = {
      {"type", "Split"}, {"pattern", {{"Regex", data::kQwen2Pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", nlohmann::json::array({words, bytes})}};
  return json;
}

/// Folders of a small BERT and a small Llama as transformers has them, made once a program, without Python.
class PretrainedFolders {
 public:
  static const std::filesystem::path& bert() {
    static const std::filesystem::path made = [] {
      export_run(
          "bert",
          "--preset tiny --vocabulary-size 300 --words 310 --layers 2 --hidden 24 --heads 4 --sequence 32 --context "
          "40 --pooling cls --pooler --norm-place after --embedding-norm --no-final-norm --positions learned "
          "--token-types 2 --attention-bias all --feed-forward-bias --score-scale head");
      return root() / "bert";
    }();
    return made;
  }
  /// The options of a run that is exported as a llama.
  static constexpr const char* kLlama =
      "--model decoder --preset gpt-tiny --words 300 --layers 2 --hidden 24 --heads 4 --key-heads 2 --sequence 48 "
      "--context 64 --positions rotary --norm rms --activation swiglu --no-feed-forward-bias "
      "--no-tied-scores ";
  static const std::filesystem::path& llama() {
    static const std::filesystem::path made = [] {
      export_run("llama", std::string(kLlama) + "--attention-bias none --vocab bytes");
      put(root() / "llama" / "tokenizer.json", tokenizer_of_bytes().dump());
      put(root() / "llama" / "tokenizer_config.json",
          R"({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"})");
      change_config(root() / "llama", [](nlohmann::json& config) { config["eos_token_id"] = 0; });
      return root() / "llama";
    }();
    return made;
  }

  static void change_config(const std::filesystem::path& folder, const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json config = nlohmann::json::parse(contents_of(folder / "config.json"));
    change(config);
    put(folder / "config.json", config.dump());
  }

 private:
  static const std::filesystem::path& root() {
    static const TemporaryFolder folder;
    return folder.path();
  }
  static void export_run(const std::string& name, const std::string& options) {
    const std::filesystem::path run_of = root() / (name + "-run");
    const Outcome trained =
        run("train --data sample --samples 16 --steps 2 --batch 8 --threads-per-rank 1 " + options + into(run_of));
    const Outcome exported = run("export --model " + shell_quoted(run_of) + into(root() / name));
    if (trained.code != 0 || exported.code != 0) throw std::runtime_error(trained.err + exported.err);
  }
};

}  // namespace adjoin::test
