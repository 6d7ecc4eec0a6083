#include "adjoin/data/document_tokens.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "adjoin/data/token_store.hpp"
#include "tests/data/data_files.hpp"

namespace adjoin::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

DocumentCounts write_paragraphs(const TemporaryFolder& folder, const std::string& text,
                                const TextVocabulary& vocabulary) {
  const std::string path = folder.write("a.txt", text);
  const Documents documents({.data = path, .test = path});
  return write_document_tokens(folder.path("a.tokens"), *documents.open(Part::train), vocabulary);
}

/// The bytes, by another name.
std::shared_ptr<const TextVocabulary> other_vocabulary() {
  const auto next = [left = 2](std::string& text) mutable { return left-- > 0 && (text = "a rose is a rose", true); };
  return learn_subwords(next, {});
}

TEST(DocumentTokens, are_those_of_each_document_and_its_end) {
  const TemporaryFolder folder;
  const auto bytes = byte_vocabulary();
  const DocumentCounts written = write_paragraphs(folder, "ab\n\nc\xff\n", *bytes);
  const DocumentTokens mapped = map_document_tokens(folder.path("a.tokens"), *bytes);
  EXPECT_THAT(mapped.tokens.ids(0), ElementsAre(97, 98, 256, 99, 255, 256));
  for (const DocumentCounts& counts : {written, mapped.counts}) {
    EXPECT_EQ(counts.documents, 2);
    EXPECT_EQ(counts.bytes, 4);
    EXPECT_EQ(counts.tokens, 6);
  }
  EXPECT_EQ(mapped.words, 257);
  EXPECT_EQ(mapped.end_of_document, 256);
}

TEST(DocumentTokens, of_another_vocabulary_are_refused) {
  const TemporaryFolder folder;
  write_paragraphs(folder, "ab\n", *byte_vocabulary());
  EXPECT_THAT(refusal([&] { map_document_tokens(folder.path("a.tokens"), *other_vocabulary()); }),
              HasSubstr("a.tokens: holds tokens of another vocabulary"));
}

TEST(DocumentTokens, are_refused_where_the_file_is_cut_short_or_holds_something_else) {
  const TemporaryFolder folder;
  const auto bytes = byte_vocabulary();
  write_paragraphs(folder, "ab\n", *bytes);
  const std::string whole = test::contents_of(folder.path("a.tokens"));
  const auto refusal_of = [&](const std::string& path) { return refusal([&] { map_document_tokens(path, *bytes); }); };
  EXPECT_THAT(refusal_of(folder.write("b", whole.substr(0, whole.size() - 1))), HasSubstr("b: the token file has"));
  EXPECT_THAT(refusal_of(folder.write("b", std::string(200, 'x'))), HasSubstr("b: is not a token file"));
  EXPECT_THAT(refusal_of(folder.path("c")), HasSubstr("c: cannot be opened"));
  for (const char* text : {"", "{}", "[]", R"({"vocabulary": "bytes", "documents": 1, "bytes": 1})"}) {
    TokenFileWriter file(folder.path("b"), 257);
    file.add(std::vector<int64_t>{1, 256}, 0);
    file.publish(text);
    EXPECT_THAT(refusal_of(folder.path("b")), HasSubstr("b: is a token file, but does not hold documents")) << text;
  }
}

TEST(DocumentTokens, that_cannot_be_read_leave_no_file) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal([&] { write_paragraphs(folder, "", *byte_vocabulary()); }), HasSubstr("holds no text"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("a.tokens")));
}

TEST(LearnSubwords, learns_from_documents_that_are_spread_over_a_long_text) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += i < 500 ? "beginning\n\n" : "conclusion\n\n";
  const Documents documents({.data = folder.write("a.txt", text)});
  const auto vocabulary = learn_subwords(documents, {.size = 300, .text_bytes = 500});
  EXPECT_EQ(vocabulary->encode("beginning").size(), 1u);
  EXPECT_EQ(vocabulary->encode("conclusion").size(), 1u);
}

}  // namespace
}  // namespace adjoin::data
