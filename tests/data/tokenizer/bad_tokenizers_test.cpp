#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "adjoin/data/tokenizer/text_vocabulary.hpp"
#include "adjoin/data/tokenizer/tokenizer_folder.hpp"
#include "adjoin/data/tokenizer/wordpiece.hpp"
#include "tests/data/data_files.hpp"
#include "tests/data/tokenizer/small_tokenizers.hpp"

namespace adjoin::data {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Expects that a tokenizer.json of this content is refused in one line that begins with its name.
void expect_refused_text(const std::string& content, const std::string& expected) {
  EXPECT_THAT(refusal([&] { text_vocabulary(content, "a/tokenizer.json"); }),
              AllOf(StartsWith("a/tokenizer.json: "), HasSubstr(expected), Not(HasSubstr("\n"))));
}

void expect_refused(const Json& json, const std::string& expected) {
  expect_refused_text(json.dump(), expected);
}

Json changed(Json json, const std::string& pointer, const Json& value) {
  json[Json::json_pointer(pointer)] = value;
  return json;
}

TEST(BadTokenizers, are_refused_by_the_name_of_the_part_that_is_unknown) {
  const Json good = small_decoder();
  ASSERT_NO_THROW(text_vocabulary(good.dump(), "a"));
  expect_refused(changed(good, "/normalizer", {{"type", "Precompiled"}}), "normalizer \"Precompiled\"");
  expect_refused(changed(good, "/pre_tokenizer", {{"type", "Whitespace"}}), "pre_tokenizer \"Whitespace\"");
  expect_refused(
      changed(good, "/pre_tokenizer",
              {{"type", "Split"}, {"pattern", {{"Regex", "\\w+"}}}, {"behavior", "Isolated"}, {"invert", false}}),
      R"(pre_tokenizer "Split" with the pattern {"Regex":"\\w+"})");
  expect_refused(changed(good, "/post_processor", {{"type", "Other"}}), "post_processor \"Other\"");
  expect_refused(changed(good, "/decoder", {{"type", "CTC"}}), "decoder \"CTC\"");
  expect_refused(changed(good, "/model/type", "Unigram"), "model \"Unigram\"");
  expect_refused(changed(good, "/model/end_of_word_suffix", "</w>"), "end_of_word_suffix");
  expect_refused(changed(good, "/model/dropout", 0.1), "dropout");
  expect_refused(small_classifier(), "model \"WordPiece\" is not supported in a decoder");
  EXPECT_THAT(refusal([&] { WordPiece::from_json(good.dump(), "b"); }),
              HasSubstr("model \"BPE\" is not supported in a classifier"));
  EXPECT_THAT(
      refusal([] { WordPiece::from_json(changed(small_classifier(), "/normalizer/type", "NFKC").dump(), "b"); }),
      HasSubstr("normalizer \"NFKC\""));
}

TEST(BadTokenizers, are_refused_where_their_parts_do_not_fit) {
  const Json good = small_decoder();
  expect_refused(changed(good, "/model/merges/0", "a zz"), "merge 1 names \"zz\", which is not in the vocabulary");
  expect_refused(changed(good, "/model/merges/0", Json::array({"b", "a"})),
                 "merge 1 names \"ba\", which is not in the vocabulary");
  expect_refused(changed(good, "/model/merges/0", "a b c"), "merge 1 is \"a b c\"");
  expect_refused(changed(good, "/model/vocab/a", good["model"]["vocab"]["b"]), "have the same id");
  expect_refused(changed(good, "/model/vocab/a", -1), "the id of \"a\" is -1");
  expect_refused(changed(good, "/model/vocab/a", 4'000'000'000'000), "the id of \"a\" is 4000000000000");
  expect_refused(changed(good, "/model/vocab/a", 1.5), "the id of \"a\" is 1.5");
  expect_refused(changed(good, "/model/vocab", Json::object()), "no vocabulary");
  expect_refused(changed(good, "/added_tokens/0/id", 1), "added token \"<|endoftext|>\" has id 1, but");
  expect_refused(changed(good, "/added_tokens/0/content", "other"), "have the same id");
  expect_refused(changed(good, "/model/unk_token", "zz"), "the unknown token, \"zz\", is not in the vocabulary");
  expect_refused(changed(good, "/model/adjoin_ends", Json::array({"zz"})),
                 "the end-of-text token, \"zz\", is not in the vocabulary");
  Json without_end = good;
  without_end["added_tokens"] = Json::array();
  without_end["model"]["vocab"].erase("<|endoftext|>");
  expect_refused(without_end, "no end-of-text token");
  Json around = {{"type", "TemplateProcessing"},
                 {"single", Json::array({Json::object({{"SpecialToken", {{"id", "x"}, {"type_id", 0}}}})})},
                 {"special_tokens", {{"x", {{"id", "x"}, {"ids", Json::array({5000})}}}}}};
  expect_refused(changed(good, "/post_processor", around), "gives \"x\" the id 5000");
}

TEST(BadTokenizers, are_refused_where_they_would_make_texts_endless) {
  const auto longer = [](size_t times) {
    return Json{
        {"type", "Replace"}, {"pattern", Json::object({{"String", "a"}})}, {"content", std::string(times, 'a')}};
  };
  const Json good = small_decoder();
  EXPECT_NO_THROW(text_vocabulary(changed(good, "/normalizer", longer(16)).dump(), "a"));
  expect_refused(changed(good, "/normalizer", longer(17)), "makes texts too long");
  const Json twice = {{"type", "Sequence"}, {"normalizers", Json::array({longer(5), longer(4)})}};
  expect_refused(changed(good, "/normalizer", twice), "makes texts too long");
}

TEST(BadTokenizers, are_refused_where_they_are_no_json) {
  expect_refused_text("{", "parse error");
  expect_refused_text("{}", "model \"\"");
  expect_refused_text("{\"model\": []}", "");
  expect_refused_text("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"\xff\": 0}}}", "");
  expect_refused_text("{\"model\": " + std::string(1'000'000, '['), "nested too deeply");
  expect_refused_text("{\"a\": \"" + std::string(1'000'000, 'x'), "parse error");
}

TEST(BadTokenizers, are_refused_as_folders_with_the_file_that_is_wrong) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal([&] { load_text_vocabulary(folder.path()); }), HasSubstr("is a folder without a tokenizer"));
  folder.write("vocab.json", "{\"a\": 0, \"b\": 1, \"ab\": 2, \"<|endoftext|>\": 3}");
  EXPECT_THAT(refusal([&] { load_text_vocabulary(folder.path()); }), HasSubstr("without a tokenizer"));
  folder.write("merges.txt", "#version: 0.2\na b\n");
  EXPECT_EQ(load_text_vocabulary(folder.path())->encode("ab"), std::vector<int64_t>{2});
  folder.write("merges.txt", "#version: 0.2\na c\n");
  EXPECT_THAT(refusal([&] { load_text_vocabulary(folder.path()); }),
              AllOf(StartsWith(folder.path()), HasSubstr("merge 1 names \"c\"")));
  folder.write("vocab.json", "{\"a\": 9223372036854775807, \"b\": 1, \"ab\": 2}");
  EXPECT_THAT(refusal([&] { load_text_vocabulary(folder.path()); }), HasSubstr("the id of "));
  folder.write("tokenizer_config.json", "{\"tokenizer_class\": \"XLNetTokenizer\"}");
  EXPECT_THAT(refusal([&] { load_text_vocabulary(folder.path()); }),
              HasSubstr("\"tokenizer_class\": \"XLNetTokenizer\" is not supported"));
  folder.write("tokenizer_config.json", "{\"tokenizer_class\": 7}");
  EXPECT_THAT(refusal([&] { load_text_vocabulary(folder.path()); }), StartsWith(folder.path()));
  folder.write("tokenizer_config.json", "[");
  EXPECT_THAT(refusal([&] { load_text_vocabulary(folder.path()); }), HasSubstr("tokenizer_config.json: "));
  EXPECT_THAT(refusal([&] { load_text_vocabulary(folder.path("tokenizer.json")); }), HasSubstr("tokenizer.json: "));
}

TEST(BadTokenizers, are_refused_as_damaged_models_of_sentencepiece) {
  const TemporaryFolder folder;
  for (const std::string& content :
       {std::string(), std::string("not a model"), std::string("\x0a\xff\xff\xff\xff\x0f", 6),
        std::string("\x0a\x04\x0a\x02"
                    "ab",
                    6),
        std::string("\x0a\x02\x18\x63", 4)}) {
    folder.write("tokenizer.model", content);
    EXPECT_THAT(refusal([&] { load_text_vocabulary(folder.path()); }), HasSubstr("tokenizer.model: "));
  }
}

TEST(BadTokenizers, of_too_many_bytes_are_not_read) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", "{");
  std::filesystem::resize_file(folder.path("tokenizer.json"), uintmax_t{1} << 40);
  EXPECT_THAT(refusal([&] { load_text_vocabulary(folder.path()); }), HasSubstr("has 1,099,511,627,776 bytes"));
}

/// A text with a few bytes changed, left out, doubled or moved.
std::string mutated(std::string text, std::mt19937& random) {
  const std::string kBytes = "{}[]\",:0129-.e\\ \n#ab\xff\xc4\x80";
  const auto below = [&](size_t end) { return static_cast<size_t>(random()) % std::max<size_t>(end, 1); };
  for (size_t changes = 1 + below(4); changes > 0 && !text.empty(); --changes) {
    const size_t at = below(text.size()), length = 1 + below(30);
    switch (below(5)) {
      case 0:
        text[at] = kBytes[below(kBytes.size())];
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(below(text.size()), text.substr(at, length));
        break;
      case 3:
        text.insert(at, 1, kBytes[below(kBytes.size())]);
        break;
      default:
        if (below(4) == 0) text.resize(at);
    }
  }
  return text;
}

/// What a vocabulary does with texts, if it is one.
void use(const TextVocabulary& vocabulary) {
  for (const std::string text : {"abc  ab'S 12345 <|endoftext|>\r\n\xe4\xb8\xad\xcc\x81", "\xff", ""})
    for (const auto& ids : {vocabulary.encode(text), vocabulary.encode_prompt(text), vocabulary.ends()})
      for (const int64_t id : ids) EXPECT_LT(vocabulary.bytes_of(id).size(), 1000u);
}

/// Mutates a content so often; each is read or refused, and both are among them.
template <class Read>
void expect_no_harm(const std::string& content, unsigned seed, Read read) {
  std::mt19937 random(seed);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string text = mutated(content, random);
    try {
      read(text);
    } catch (const InvalidArgument& error) {
      ++refused;
      EXPECT_THAT(error.what(), Not(HasSubstr("\n"))) << text;
      EXPECT_LT(std::string(error.what()).size(), 1000u);
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_LT(refused, 1000);
}

TEST(MutatedTokenizers, are_read_or_refused) {
  for (const Json& good : {small_decoder(), small_decoder_of_characters()}) {
    const auto read = [](const std::string& text) {
      use(*text_vocabulary("{" + text.substr(text.empty() ? 0 : 1), "a"));
    };
    expect_no_harm(good.dump(), 1, read);
  }
  expect_no_harm(small_classifier().dump(), 2, [](const std::string& text) {
    WordPiece::from_json(text, "a").encode_review("a ab [SEP] \xc3\xa9", 20);
  });
}

TEST(MutatedMerges, are_read_or_refused) {
  const TemporaryFolder folder;
  folder.write("vocab.json",
               R"({"a":0,"b":1,"c":2,"ab":3,"abc":4,"cc":5,"ca":6,"bc":7,"aa":8,"#":9,"<|endoftext|>":10})");
  expect_no_harm("#version: 0.2\na b\nab c\nc c\nc a\nb c\na a\n", 3, [&](const std::string& text) {
    folder.write("merges.txt", text);
    use(*load_text_vocabulary(folder.path()));
  });
}

TEST(MutatedSideFiles, are_read_or_refused) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", small_decoder().dump());
  folder.write("config.json", R"({"model_type": "llama"})");
  expect_no_harm(
      R"({"added_tokens_decoder": {"24": {"content": "<a>", "single_word": true}, "25": {"content": "<b>"}},)"
      R"("extra_special_tokens": {"z_token": "<z>"}, "additional_special_tokens": ["ab", {"content": "<c>"}],)"
      R"("eos_token": {"content": "<|endoftext|>", "lstrip": true}, "pad_token": null, "split_special_tokens": true,)"
      R"("tokenizer_class": "PreTrainedTokenizerFast", "model_specific_special_tokens": {"q_token": "<q>"}})",
      5, [&](const std::string& text) {
        folder.write("tokenizer_config.json", text);
        use(*load_text_vocabulary(folder.path()));
      });
}

TEST(MutatedModels, of_sentencepiece_are_read_or_refused) {
  const TemporaryFolder folder;
  std::string model;
  for (const std::string piece : {"<unk>", "<s>", "</s>", "a", "b", "ab", "\xe2\x96\x81"})
    model += std::string("\x0a") + static_cast<char>(piece.size() + 4) + "\x0a" + static_cast<char>(piece.size()) +
             piece + "\x18" +
             (piece == "<unk>"  ? "\x02"
              : piece[0] == '<' ? "\x03"
                                : "\x01");
  model += std::string("\x12\x02\x18\x02", 4);
  expect_no_harm(model, 4, [&](const std::string& text) {
    folder.write("tokenizer.model", text);
    use(*load_text_vocabulary(folder.path()));
  });
}

}  // namespace
}  // namespace adjoin::data
