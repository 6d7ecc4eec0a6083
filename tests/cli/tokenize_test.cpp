#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "adjoin/data/token_folder.hpp"
#include "tests/cli/program.hpp"
#include "tests/data/tokenizer/small_tokenizers.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::MatchesRegex;
using ::testing::SizeIs;
using ::testing::StartsWith;

class Tokenize : public testing::Test {
 protected:
  Outcome tokenize(const std::string& arguments) const { return run("tokenize " + arguments + into(out())); }
  fs::path out() const { return folder_ / "made/tokens"; }
  std::string paragraphs(const std::string& text) const {
    put(folder_ / "a.txt", text);
    return "--vocab bytes --data " + shell_quoted(folder_ / "a.txt");
  }
  void refuses(const std::string& arguments, const std::string& expected) const {
    const Outcome outcome = tokenize(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(lines_of(outcome.err), ElementsAre(AllOf(StartsWith("adjoin: "), HasSubstr(expected))));
    EXPECT_TRUE(!fs::exists(folder_ / "made") || fs::is_empty(folder_ / "made")) << arguments;
  }
  TemporaryFolder folder_;
};

TEST_F(Tokenize, writes_documents_as_tokens_and_says_what_they_came_to) {
  const Outcome outcome = tokenize(paragraphs("a film\n\nanother\nfilm\n\nb\n"));
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out,
            "train: 2 documents, 18 bytes, 20 tokens of 0.90 bytes\n"
            "test:  1 document, 1 byte, 2 tokens of 0.50 bytes\n");
  const data::TokenFolder made = data::open_token_folder(out());
  EXPECT_EQ(made.vocabulary->decode(made.train.tokens.ids(0)), "a filmanother\nfilm");
  EXPECT_EQ(made.test.counts.documents, 1);
}

TEST_F(Tokenize, learns_subwords_without_a_word_of_it_and_takes_them_again) {
  const Outcome learned = tokenize("--data sample --vocab subword --vocabulary-size 600");
  EXPECT_EQ(learned.err, "");
  ASSERT_EQ(learned.code, 0);
  for (const std::string& line : lines_of(learned.out)) EXPECT_THAT(line, SizeIs(Lt(81)));
  EXPECT_THAT(lines_of(learned.out),
              ElementsAre(MatchesRegex("train: 6,270 documents, .* tokens of [34]\\.[0-9]+ bytes"),
                          MatchesRegex("test:  330 documents, .* tokens of [34]\\.[0-9]+ bytes")));
  const fs::path again = folder_ / "again";
  EXPECT_EQ(run("tokenize --data sample --vocab " + shell_quoted(out() / "vocab.model") + into(again)).code, 0);
  EXPECT_EQ(tree_of(again), tree_of(out()));
}

TEST_F(Tokenize, refuses_in_one_line_what_holds_no_documents) {
  refuses(paragraphs(""), "a.txt: holds no text");
  refuses(paragraphs("one paragraph\nalone\n"), "a.txt: holds one document");
  refuses("--data /none", "/none: no such file or folder");
  refuses(paragraphs("a\n\nb\n") + " --test /none", "/none: no such file or folder");
  refuses("", "--data is needed");
  refuses("--data sample --vocab subword --vocabulary-size 258", "--vocabulary-size is 258, expected 259 to 1048576");
  refuses("--data sample --vocab bytes --vocabulary-size 300",
          "--vocabulary-size is for --vocab subword, and --vocab is bytes");
  refuses("--data sample --vocab subword --vocabulary-size 260", "a vocabulary of 260 pieces is too small");
  refuses("--data sample --vocab " + shell_quoted(folder_ / "a.txt"), "a.txt: is not a vocabulary of a language model");
}

TEST_F(Tokenize, refuses_a_folder_that_holds_something) {
  fs::create_directories(out());
  put(out() / "letter", "to nobody");
  const auto before = tree_of(folder_.path());
  const Outcome outcome = tokenize("--data sample");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(lines_of(outcome.err),
              ElementsAre(HasSubstr("tokens: exists and is not an empty folder; choose another")));
  EXPECT_EQ(tree_of(folder_.path()), before);
}

TEST_F(Tokenize, prints_the_ids_of_a_classifier_s_and_of_a_decoder_s_tokenizer) {
  put(folder_ / "texts", "ab [SEP] Ab\n<|endoftext|>ab\n");
  const auto ids = [&](const fs::path& vocab) {
    const Outcome outcome = run("tokenize --vocab " + shell_quoted(vocab), {.input = (folder_ / "texts").string()});
    EXPECT_EQ(outcome.err, "");
    return lines_of(outcome.out);
  };
  put(folder_ / "tokenizer.json", data::small_classifier().dump());
  EXPECT_THAT(ids(folder_.path()), ElementsAre("4 5 3 6", StartsWith("1 ")));
  EXPECT_EQ(ids(folder_ / "tokenizer.json"), ids(folder_.path()));
  put(folder_ / "tokenizer.json", data::small_decoder().dump());
  EXPECT_THAT(ids(folder_.path()), ElementsAre(StartsWith("4 6"), "0 4"));
}

TEST_F(Tokenize, takes_a_decoder_s_tokenizer_into_its_folder) {
  fs::create_directories(folder_ / "made_elsewhere");
  put(folder_ / "made_elsewhere/tokenizer.json", data::small_decoder().dump());
  put(folder_ / "made_elsewhere/tokenizer_config.json", R"({"eos_token": "|"})");
  put(folder_ / "a.txt", "ab <|endoftext|>\n\nabc\n\nab\n");
  const std::string arguments = " --data " + shell_quoted(folder_ / "a.txt");
  EXPECT_EQ(tokenize("--vocab " + shell_quoted(folder_ / "made_elsewhere") + arguments).err, "");
  const data::TokenFolder made = data::open_token_folder(out());
  EXPECT_EQ(made.train.end_of_document, 20);
  EXPECT_EQ(made.test.tokens.ids(0).size(), 2u);
  const fs::path again = folder_ / "again";
  EXPECT_EQ(run("tokenize --vocab " + shell_quoted(out()) + arguments + into(again)).err, "");
  EXPECT_EQ(tree_of(again), tree_of(out()));
  put(folder_ / "made_elsewhere/tokenizer.json", data::small_classifier().dump());
  fs::remove_all(folder_ / "made");
  refuses("--vocab " + shell_quoted(folder_ / "made_elsewhere") + arguments,
          "model \"WordPiece\" is not supported in a decoder");
}

TEST_F(Tokenize, prints_bytes_as_ids) {
  put(folder_ / "texts", "a\tb\n\xff\n");
  EXPECT_EQ(run_well("tokenize --vocab bytes", {.input = (folder_ / "texts").string()}).out, "97 9 98\n255\n");
}

TEST_F(Tokenize, wants_a_folder_for_documents) {
  EXPECT_THAT(run("tokenize --data sample").err, HasSubstr("--out is needed"));
}

}  // namespace
}  // namespace adjoin::cli
