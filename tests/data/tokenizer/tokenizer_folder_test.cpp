#include "adjoin/data/tokenizer/tokenizer_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "adjoin/data/document_tokens.hpp"
#include "adjoin/data/tokenizer/literal_pattern.hpp"
#include "adjoin/data/tokenizer/text_vocabulary.hpp"
#include "adjoin/data/tokenizer/wordpiece.hpp"
#include "tests/data/data_files.hpp"
#include "tests/data/tokenizer/small_tokenizers.hpp"

namespace adjoin::data {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A decoder's tokenizer that puts a beginning before each text, and has another end of a text.
Json with_beginning() {
  Json json = small_decoder();
  for (const auto& [content, id] : {std::pair("<s>", 24), {"<eot>", 25}}) {
    Json token = json["added_tokens"][0];
    token["content"] = content, token["id"] = id;
    json["added_tokens"].push_back(token);
  }
  json["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", Json::array({Json::object({{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}}),
                                                    Json::object({{"Sequence", {{"id", "A"}, {"type_id", 0}}}})})},
                            {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", Json::array({24})}}}}}};
  return json;
}

TEST(TokenizerFolder, names_the_ends_of_a_text_in_the_content) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", with_beginning().dump());
  EXPECT_THAT(load_text_vocabulary(folder.path())->ends(), ElementsAre(0));  // the usual one
  folder.write("tokenizer_config.json", R"({"eos_token": "<eot>"})");
  EXPECT_THAT(load_text_vocabulary(folder.path())->ends(), ElementsAre(25));
  folder.write("tokenizer_config.json", R"({"eos_token": {"content": "<eot>", "special": true}})");
  folder.write("generation_config.json", R"({"eos_token_id": [0, 25]})");
  const auto vocabulary = load_text_vocabulary(folder.path());
  EXPECT_THAT(vocabulary->ends(), ElementsAre(25, 0));
  EXPECT_EQ(vocabulary->end_of_document(), 25);
  EXPECT_EQ(vocabulary->bytes_of(25), "");

  folder.write("config.json", R"({"model_type": "llama", "eos_token_id": 24})");
  EXPECT_THAT(load_text_vocabulary(folder.path())->ends(), ElementsAre(25, 0)) << "generation_config.json decides";
  std::filesystem::remove(folder.path("generation_config.json"));
  EXPECT_THAT(load_text_vocabulary(folder.path())->ends(), ElementsAre(25, 24));
  folder.write("config.json", R"({"model_type": "llama", "eos_token_id": [24, 0, 50256, -1]})");
  EXPECT_THAT(load_text_vocabulary(folder.path())->ends(), ElementsAre(25, 24, 0)) << "no text has the others";

  const std::string kept = folder.write("kept", vocabulary->content());  // without the other files
  EXPECT_THAT(load_text_vocabulary(kept)->ends(), ElementsAre(25, 0));
  EXPECT_EQ(load_text_vocabulary(kept)->hash(), vocabulary->hash());
}

TEST(TokenizerFolder, is_read_by_the_file_that_a_path_names) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", small_decoder().dump());
  folder.write("tokenizer_config.json", R"({"eos_token": "ab"})");
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nab\n");
  EXPECT_THAT(load_text_vocabulary(folder.path("tokenizer.json"))->ends(), ElementsAre(4));
  EXPECT_THAT(WordPiece::load(folder.path("vocab.txt")).encode("AB"), ElementsAre(4));
}

TEST(TokenizerFolder, of_adjoin_has_its_vocabulary) {
  const TemporaryFolder folder;
  byte_vocabulary()->save(folder.path("vocab.model"));
  EXPECT_EQ(load_text_vocabulary(folder.path())->hash(), byte_vocabulary()->hash());
}

TEST(TokenizerFolder, of_a_vocab_txt_is_cased_where_its_settings_say_so) {
  const TemporaryFolder folder;
  const std::string file = folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nab\nAB\n\xc3\x89\n\xc3\xa9\n");
  EXPECT_THAT(WordPiece::load(folder.path()).encode("AB \xc3\x89"), ElementsAre(4, 1));
  folder.write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_THAT(WordPiece::load(folder.path()).encode("AB \xc3\x89"), ElementsAre(5, 6));
  EXPECT_THAT(WordPiece::load(file).encode("AB"), ElementsAre(4));  // a file by itself is BERT's uncased one
  folder.write("tokenizer_config.json", R"({"strip_accents": false})");
  EXPECT_THAT(WordPiece::load(folder.path()).encode("AB \xc3\x89"), ElementsAre(4, 7));
  folder.write("tokenizer_config.json", R"({"cls_token": "AB"})");
  EXPECT_EQ(WordPiece::load(folder.path()).class_id(), 5);
}

std::vector<int64_t> ids_in(const TemporaryFolder& folder, const std::string& text) {
  std::vector<int64_t> ids;
  load_text_vocabulary(folder.path())->encode_with_special_tokens(text, ids);
  return ids;
}

TEST(TokenizerFolder, is_read_by_the_class_that_config_json_implies) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", small_decoder().dump());
  EXPECT_THAT(ids_in(folder, "12"), ElementsAre(10));  // as it is, with GPT-2's pattern
  folder.write("config.json", R"({"model_type": "qwen2"})");
  EXPECT_THAT(ids_in(folder, "12"), ElementsAre(8, 9));  // Qwen 2's pattern sets digits apart
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer"})");
  EXPECT_THAT(ids_in(folder, "12"), ElementsAre(8, 9));  // transformers distrusts it for qwen2
  folder.write("config.json", R"({"model_type": "gpt2"})");
  folder.write("tokenizer_config.json", R"({"add_prefix_space": true})");
  EXPECT_THAT(ids_in(folder, "ab"), ElementsAre(7));
}

TEST(TokenizerFolder, gives_special_tokens_their_ids_in_the_order_of_the_file) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", small_decoder().dump());
  folder.write("tokenizer_config.json",
               R"({"extra_special_tokens": {"z_token": "<z>", "a_token": "<a>"}, "pad_token": "<p>"})");
  EXPECT_THAT(ids_in(folder, "<a><z>a<p>"), ElementsAre(26, 25, 1, 24));
  folder.write("tokenizer_config.json", R"({"additional_special_tokens": ["ab", "c"], "split_special_tokens": true})");
  EXPECT_THAT(ids_in(folder, "<|endoftext|>ab"), ::testing::Not(::testing::Contains(0)));
  folder.write("tokenizer_config.json",
               R"({"added_tokens_decoder": {"24": {"content": "e", "single_word": true}, "25": {"content": "<a>"}}})");
  EXPECT_THAT(ids_in(folder, "e ee"), ElementsAre(21, 6, 21, 21));  // a piece keeps its id
  EXPECT_THAT(ids_in(folder, "<a>"), ElementsAre(24));              // the file's ids do not count
}

TEST(TokenizerFolder, of_a_vocab_txt_may_have_empty_lines_and_further_tokens) {
  const TemporaryFolder folder;
  folder.write("vocab.txt", "[PAD]\n\n[UNK]\n[CLS] \n[SEP]\nab\n[MASK]\n");
  EXPECT_THAT(WordPiece::load(folder.path()).encode("ab"), ElementsAre(5));
  EXPECT_THAT(WordPiece::load(folder.path("vocab.txt")).encode("ab"), ElementsAre(5));
  folder.write("tokenizer_config.json", R"({"additional_special_tokens": ["<x>"]})");
  EXPECT_THAT(WordPiece::load(folder.path()).encode("ab<x>"), ElementsAre(5, 7));
  folder.write("added_tokens.json", R"({"NEW": 7})");  // searched in the normalised text
  EXPECT_THAT(WordPiece::load(folder.path()).encode("abnew new"), ElementsAre(5, 7, 7));
}

TEST(TokenizerFolder, is_refused_where_its_class_is_not_known) {
  const TemporaryFolder folder;
  const auto expect_refused = [&](const std::string& expected) {
    EXPECT_THAT(refusal([&] { load_text_vocabulary(folder.path()); }),
                ::testing::AllOf(::testing::StartsWith(folder.path()), HasSubstr(expected)));
  };
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nab\n");
  folder.write("config.json", R"({"model_type": "gpt2"})");
  expect_refused(
      "transformers reads a GPT2Tokenizer from tokenizer.json or vocab.json with merges.txt, but there is vocab.txt");
  folder.write("tokenizer.json", small_classifier().dump());
  expect_refused("tokenizer.json: model \"WordPiece\" is not supported with GPT2Tokenizer; expected \"BPE\"");
  folder.write("config.json", R"({"model_type": "roberta"})");
  expect_refused("config.json: \"model_type\": \"roberta\": its tokenizers are not known");
  folder.write("tokenizer_config.json", R"({"auto_map": {"AutoTokenizer": ["own.Own", null]}})");
  expect_refused("tokenizer_config.json: \"auto_map\": ");
}

TEST(LiteralPattern, is_a_list_of_escaped_texts) {
  const std::string expression = LiteralPattern::write({"a.b", "|", "<tool>"});
  EXPECT_EQ(expression, "<tool>|a\\.b|\\|");
  const auto pattern = LiteralPattern::read(expression);
  ASSERT_TRUE(pattern.has_value());
  EXPECT_EQ(pattern->end_of("xxa.bx", 0), 2u);
  EXPECT_EQ(pattern->end_of("xxa.bx", 2), 5u);
  EXPECT_EQ(pattern->end_of("axb", 0), 3u);
  for (const char* other : {"", "a||b", "a+", "\\w", "[ab]", "a\\"}) EXPECT_FALSE(LiteralPattern::read(other)) << other;
}

TEST(WordPieceJson, is_the_file_of_what_is_not_the_plain_one) {
  const WordPiece plain({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "ab"});
  EXPECT_STREQ(plain.file(), "vocab.txt");
  EXPECT_EQ(plain.content(), "[PAD]\n[UNK]\n[CLS]\n[SEP]\nab\n");
  const WordPiece cased = WordPiece::from_json(small_classifier().dump(), "a");
  EXPECT_STREQ(cased.file(), "tokenizer.json");
  EXPECT_EQ(cased.content(), small_classifier().dump());
  EXPECT_EQ(cased.json(), cased.content());
}

TEST(WordPieceJson, of_a_plain_vocabulary_reads_as_it) {
  const WordPiece plain({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ab", "##e", "\"\\"});
  const WordPiece again = WordPiece::from_json(plain.json(), "a");
  const std::string text = "[MASK] AB\xc3\xa9 zz [PAD]";
  EXPECT_EQ(again.encode_review(text, 100), plain.encode_review(text, 100));
  EXPECT_EQ(again.size(), plain.size());
}

TEST(WordPieceJson, does_not_cut_words_into_added_tokens) {
  Json json = small_classifier();
  Json token = json["added_tokens"][0];
  token["content"] = "zz", token["id"] = 8;
  json["added_tokens"].push_back(token);
  const WordPiece tokenizer = WordPiece::from_json(json.dump(), "a");
  EXPECT_THAT(tokenizer.encode("zz ZZ"), ElementsAre(8, 1));
  EXPECT_EQ(tokenizer.size(), 9);
}

TEST(BpeVocabulary, counts_special_tokens_in_prompts_alone) {
  const auto vocabulary = text_vocabulary(with_beginning().dump(), "a");
  EXPECT_THAT(vocabulary->encode_prompt("ab<|endoftext|>"), ElementsAre(24, 4, 0));
  std::vector<int64_t> ids;
  vocabulary->encode_with_special_tokens("ab<|endoftext|>", ids);
  EXPECT_THAT(ids, ElementsAre(4, 0));
  ids = vocabulary->encode("ab<|endoftext|>");
  EXPECT_THAT(ids, ::testing::Not(::testing::Contains(0)));
  EXPECT_EQ(ids[0], 4);
}

TEST(BpeVocabulary, gives_a_text_back) {
  const auto bytes = text_vocabulary(small_decoder().dump(), "a");
  EXPECT_EQ(bytes->decode(bytes->encode(" ab\n\xe4\xb8\xad'sabc 12")), " ab\n\xe4\xb8\xad'sabc 12");
  const auto characters = text_vocabulary(small_decoder_of_characters().dump(), "a");
  EXPECT_EQ(characters->decode(characters->encode("ab b\n\xe4\xb8\xad\xe4\xb8")), " ab b\n\xe4\xb8\xad\xe4\xb8");
  EXPECT_EQ(characters->decode(characters->encode("z")), " ");  // what is unknown is lost
}

TEST(BpeVocabulary, begins_documents_where_its_texts_begin) {
  class Two final : public SampleReader {
    bool next(Sample& sample) override { return sample.text = "ab", ++count_ <= 2; }
    [[noreturn]] void fail(const std::string& what) override { throw Error(what); }
    int count_ = 0;
  };
  Two begun, not_begun;
  const auto ids = [](SampleReader& reader, const Json& json) {
    const DocumentTokens held = hold_document_tokens("two", reader, *text_vocabulary(json.dump(), "a"));
    const auto all = held.tokens.ids(0);
    EXPECT_EQ(held.counts.tokens, std::ssize(all));
    return std::vector<int64_t>(all.begin(), all.end());
  };
  EXPECT_THAT(ids(begun, with_beginning()), ElementsAre(24, 4, 0, 24, 4, 0));
  EXPECT_THAT(ids(not_begun, small_decoder()), ElementsAre(4, 0, 4, 0));
  EXPECT_THAT(byte_vocabulary()->beginning(), IsEmpty());
}

}  // namespace
}  // namespace adjoin::data
