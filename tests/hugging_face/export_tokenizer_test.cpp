#include "adjoin/hugging_face/export_tokenizer.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/data/tokenizer/word_pattern.hpp"
#include "tests/data/tokenizer/small_tokenizers.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::train {
namespace {

/// The files of a decoder's tokenizer, for a model of transformers.
std::vector<TaskFile> files_of(const nlohmann::json& tokenizer, const char* model_type) {
  const test::TemporaryFolder folder;
  test::put(folder / "vocab.model", tokenizer.dump());
  nlohmann::ordered_json config{{"model_type", model_type}};
  return tokenizer_files(*data::load_text_vocabulary((folder / "vocab.model").string()), 64, config);
}

TEST(ExportTokenizer, refuses_a_qwen2s_if_transformers_would_replace_it) {
  nlohmann::json sound = data::small_decoder();
  sound["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       nlohmann::json::array({{{"type", "Split"},
                               {"pattern", {{"Regex", data::kQwen2Pattern}}},
                               {"behavior", "Isolated"},
                               {"invert", false}},
                              {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}})}};
  EXPECT_EQ(files_of(sound, "qwen2").size(), 2u);
  std::vector<nlohmann::json> others(5, sound);
  others[0]["pre_tokenizer"] = data::small_decoder()["pre_tokenizer"];
  others[1]["normalizer"] = nullptr;
  others[2]["model"]["ignore_merges"] = true;
  others[3]["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true;
  others[4]["added_tokens"] = nlohmann::json::array();
  for (const nlohmann::json& other : others) {
    EXPECT_THROW(files_of(other, "qwen2"), InvalidArgument) << other;
    EXPECT_EQ(files_of(other, "llama").size(), 2u) << other;
  }
}

}  // namespace
}  // namespace adjoin::train
