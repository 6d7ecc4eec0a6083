#include "adjoin/data/documents.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "adjoin/data/sample_corpus.hpp"
#include "tests/data/data_files.hpp"
#include "tests/support/samples.hpp"

namespace adjoin::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> texts_of(SampleReader& reader) {
  std::vector<std::string> texts;
  for (const Sample& sample : all_of(reader)) texts.push_back(sample.text);
  return texts;
}

std::vector<std::string> texts_of(const Documents& documents, Part part) {
  return texts_of(*documents.open(part));
}

/// Those of both parts, of which the first is another source's.
std::vector<std::string> documents_of(const std::string& path, const std::string& column = "") {
  return texts_of(Documents({.data = path, .test = path, .text_column = column}), Part::train);
}

TEST(Documents, are_paragraphs_between_empty_lines) {
  const TemporaryFolder folder;
  const std::string text = "\n\none\ntwo \n\n\n  three\n\nfour";
  EXPECT_THAT(documents_of(folder.write("a.txt", text)), ElementsAre("one\ntwo ", "  three", "four"));
  folder.write_gzipped("a.gz", "one\r\ntwo\r\n\r\nthree\r\n");
  EXPECT_THAT(documents_of(folder.path("a.gz")), ElementsAre("one\ntwo", "three"));
}

TEST(Documents, are_separated_by_lines_of_white_space) {
  const TemporaryFolder folder;
  // As WikiText has them.
  EXPECT_THAT(documents_of(folder.write("a.txt", " \n = One = \n \none \n\t\v\f\r\n  two\n \n")),
              ElementsAre(" = One = ", "one ", "  two"));
  EXPECT_THAT(documents_of(folder.write("a.txt", "\n \none\n \t")), ElementsAre("one"));
  EXPECT_THAT(documents_of(folder.write("a.txt", "one\n\u00a0\ntwo\n")), ElementsAre("one\n\u00a0\ntwo"));
  EXPECT_THAT(refusal([&] { documents_of(folder.write("a.txt", " \n\t\n")); }), HasSubstr("a.txt: holds no text"));
}

TEST(Documents, keep_bytes_that_are_not_utf8_and_carriage_returns_within_a_line) {
  const TemporaryFolder folder;
  EXPECT_THAT(documents_of(folder.write("a", "a\xff\rb\n\n\xc3(\n")), ElementsAre("a\xff\rb", "\xc3("));
}

TEST(Documents, are_rows_of_tables) {
  const TemporaryFolder folder;
  EXPECT_THAT(documents_of(folder.write("a.csv", "id,text\n1,\"one\n\ntwo\"\n2,\n3,three\n")),
              ElementsAre("one\n\ntwo", "three"));
  EXPECT_THAT(documents_of(folder.write("a.tsv", "body\tid\none\t1\n"), "body"), ElementsAre("one"));
  EXPECT_THAT(documents_of(folder.write("a.jsonl", "{\"text\": \"one\\ntwo\"}\n")), ElementsAre("one\ntwo"));
}

TEST(Documents, are_files_of_a_folder_and_rows_of_its_tables_in_the_order_of_names) {
  const TemporaryFolder folder;
  folder.write("c.txt", "one\n\nand the same\n");
  folder.write("b.csv", "text\nrow 1\nrow 2\n");
  folder.write("a.txt", "two");
  folder.write("d.txt", "");
  folder.write("readme.md", "no document");
  EXPECT_THAT(documents_of(folder.path()), ElementsAre("two", "row 1", "row 2", "one\n\nand the same\n"));
}

TEST(Documents, are_all_texts_of_a_folder_that_has_no_text_files_nor_tables) {
  const TemporaryFolder folder;
  folder.write("src/b.py", "two\n\ntwo\n");
  folder.write("src/deep/c.rs", "three");
  folder.write("README.md", "one");
  folder.write("src/table.csv", "a,b\n");
  folder.write("src/program.bin", std::string("\x7f"
                                              "ELF\0",
                                              5));
  folder.write("src/empty.py", "");
  folder.write(".git/config", "hidden");
  EXPECT_THAT(documents_of(folder.path()), ElementsAre("one", "two\n\ntwo\n", "three"));
  folder.write("only.txt", "text");
  EXPECT_THAT(documents_of(folder.path()), ElementsAre("text"));
}

TEST(Documents, of_a_folder_that_tells_parts_are_in_these) {
  const TemporaryFolder folder;
  folder.write("train.csv", "text,label\na,1\nb,0\n");
  folder.write("test.csv", "text,label\nc,1\n");
  folder.write("notes.txt", "no part of it");
  const Documents documents({.data = folder.path()});
  EXPECT_THAT(texts_of(documents, Part::train), ElementsAre("a", "b"));
  EXPECT_THAT(texts_of(documents, Part::test), ElementsAre("c"));
}

TEST(Documents, of_the_tree_of_reviews_are_the_reviews) {
  const TemporaryFolder folder;
  for (const char* name : {"train/pos/1.txt", "train/neg/1.txt", "test/pos/1.txt", "test/neg/1.txt"})
    folder.write(name, name);
  EXPECT_THAT(texts_of(Documents({.data = folder.path()}), Part::test),
              ElementsAre("test/pos/1.txt", "test/neg/1.txt"));
}

TEST(Documents, hold_out_the_last_twentieth_and_one_at_least) {
  const TemporaryFolder folder;
  const auto numbered = [&](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += std::to_string(i) + "\n\n";
    return Documents({.data = folder.write("a.txt", text)});
  };
  EXPECT_THAT(texts_of(numbered(3), Part::train), ElementsAre("0", "1"));
  EXPECT_THAT(texts_of(numbered(3), Part::test), ElementsAre("2"));
  const Documents hundred = numbered(100);
  EXPECT_EQ(texts_of(hundred, Part::train).size(), 95u);
  EXPECT_THAT(texts_of(hundred, Part::test), ElementsAre("95", "96", "97", "98", "99"));
}

TEST(Documents, hold_out_none_where_a_test_part_is_named) {
  const TemporaryFolder folder;
  const Documents documents({.data = folder.write("a.txt", "a\n\nb"), .test = folder.write("b.csv", "text\nc\nd\n")});
  EXPECT_THAT(texts_of(documents, Part::train), ElementsAre("a", "b"));
  EXPECT_THAT(texts_of(documents, Part::test), ElementsAre("c", "d"));
}

TEST(Documents, are_the_reviews_of_the_sample_corpus) {
  const Documents documents({.data = "sample"});
  Sample first;
  ASSERT_TRUE(open_sample_corpus(Part::train)->next(first));
  const auto train = texts_of(documents, Part::train);
  EXPECT_EQ(train.front(), first.text);
  EXPECT_EQ(train.size() + texts_of(documents, Part::test).size(), size_t{kSampleTrainReviews + kSampleTestReviews});
}

TEST(Documents, are_read_as_they_are_asked_for) {
  const TemporaryFolder folder;
  folder.write("train.csv", "text\na\nb\n\"cut short");
  folder.write("test.csv", "text\nc\n");
  const auto reader = Documents({.data = folder.path()}).open(Part::train);
  Sample sample;
  EXPECT_TRUE(reader->next(sample) && reader->next(sample));
  EXPECT_THAT(refusal([&] { reader->next(sample); }), HasSubstr("train.csv:4: a quote opens here"));
}

TEST(Documents, are_refused_in_one_line_where_there_are_none) {
  const TemporaryFolder folder;
  const auto refusal_of = [](const std::string& path, const std::string& column = "") {
    return refusal([&] { Documents({.data = path, .test = "", .text_column = column}); });
  };
  EXPECT_EQ(refusal_of("/none"), "/none: no such file or folder");
  EXPECT_THAT(refusal_of(folder.path()), HasSubstr("no documents; expected .txt, .csv, .tsv or .jsonl files"));
  EXPECT_THAT(refusal_of(folder.write("a", "")), HasSubstr("a: holds no text"));
  EXPECT_THAT(refusal_of(folder.write("a", "\n\r\n\n")), HasSubstr("a: holds no text"));
  EXPECT_THAT(refusal_of(folder.write("a", "one line")), HasSubstr("a: holds one document, expected at least 2"));
  EXPECT_THAT(refusal_of(folder.write("a.csv", "text\n")), HasSubstr("a.csv: no samples follow the header"));
  EXPECT_THAT(refusal_of(folder.write("a", "one\n\ntwo"), "body"), HasSubstr("--text-column names a column"));
  EXPECT_THAT(refusal([&] { documents_of(folder.write("a", "")); }), HasSubstr("a: holds no text"));
}

}  // namespace
}  // namespace adjoin::data
