#include "adjoin/data/samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/data/data_files.hpp"
#include "tests/support/samples.hpp"

namespace adjoin::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> described(SampleReader& reader) {
  std::vector<std::string> all;
  for (const Sample& sample : all_of(reader)) all.push_back(sample.label + " " + sample.text);
  return all;
}

std::vector<std::string> described(const std::string& path, Part part, const Columns& columns = {}) {
  return described(*open_samples(path, part, columns));
}

std::string refusal_of(const std::string& name, const std::string& content, const Columns& columns = {}) {
  const TemporaryFolder folder;
  folder.write(name, content);
  return refusal([&] { described(folder.path(), Part::train, columns); });
}

std::string refusal_of_csv(const std::string& content) {
  return refusal_of("train.csv", content);
}

TEST(OpenSamples, reads_train_and_test_files_plain_or_gzipped) {
  const TemporaryFolder folder;
  folder.write_gzipped("train.csv.gz", "text,label\n\"good, <br />very\",1\nbad,0\n");
  folder.write("test.csv", "text,label\nfine,1\n");
  EXPECT_THAT(described(folder.path(), Part::train), ElementsAre("1 good, <br />very", "0 bad"));
  EXPECT_THAT(described(folder.path(), Part::test), ElementsAre("1 fine"));
}

TEST(OpenSamples, reads_dataset_files_with_a_review_column_and_labels_in_words) {
  const TemporaryFolder folder;
  folder.write("dataset_train.csv", "id,Label,Review\n7,positive,a\n8,negative,b\n9, Pos ,c\n10,NEG,d\n");
  folder.write("dataset_val.csv", "review,sentiment\ne,neg\n");
  EXPECT_THAT(described(folder.path(), Part::train), ElementsAre("positive a", "negative b", " Pos  c", "NEG d"));
  EXPECT_THAT(described(folder.path(), Part::test), ElementsAre("neg e"));
}

TEST(OpenSamples, reads_the_folder_tree_in_the_order_of_file_names) {
  const TemporaryFolder folder;
  for (const char* name : {"train/pos/2_9.txt", "train/pos/0_7.txt", "train/neg/1_1.txt", "train/unsup/3_0.txt"})
    folder.write(name, name);
  folder.write("train/pos/readme", "not a review");
  folder.write("test/pos/0_10.txt", "p\n");
  folder.write("test/neg/0_2.txt", "n");
  EXPECT_THAT(described(folder.path(), Part::train),
              ElementsAre("pos train/pos/0_7.txt", "pos train/pos/2_9.txt", "neg train/neg/1_1.txt"));
  EXPECT_THAT(described(folder.path(), Part::test), ElementsAre("pos p\n", "neg n"));
}

TEST(OpenSamples, reads_a_folder_for_each_class) {
  const TemporaryFolder folder;
  for (const char* name :
       {"train/sport/2.txt", "train/art/1.txt", "train/art/0.txt", "test/art/0.txt", "train/.git/0.txt"})
    folder.write(name, name);
  folder.write("train/none/readme", "not a text");
  EXPECT_THAT(described(folder.path(), Part::train),
              ElementsAre("art train/art/0.txt", "art train/art/1.txt", "sport train/sport/2.txt"));
  EXPECT_THAT(described(folder.path(), Part::test), ElementsAre("art test/art/0.txt"));
  EXPECT_TRUE(has_samples(folder.path(), Part::test));
  EXPECT_FALSE(is_one_source(folder.path()));
  EXPECT_EQ(described(folder.path("train"), Part::test), described(folder.path(), Part::train));  // one for both
  EXPECT_TRUE(is_one_source(folder.path("train")));
  folder.write("empty/train/readme", "");
  EXPECT_THAT(refusal([&] { described(folder.path("empty"), Part::train); }),
              HasSubstr("empty/train: expected a folder of .txt files for each class"));
}

TEST(OpenSamples, reads_fields_between_semicolons) {
  const TemporaryFolder folder;
  folder.write("train.csv", "text;label\r\n\"a; b\";x\r\nc, d;y\r\n");
  EXPECT_THAT(described(folder.path(), Part::train), ElementsAre("x a; b", "y c, d"));
}

TEST(OpenSamples, takes_one_file_for_either_part) {
  const TemporaryFolder folder;
  const std::string path = folder.write("my.csv", "text,label\nfine,1\n");
  EXPECT_THAT(described(path, Part::test), ElementsAre("1 fine"));
  EXPECT_THAT(described(path, Part::train), ElementsAre("1 fine"));
}

TEST(OpenSamples, drops_and_counts_bytes_that_are_not_utf8) {
  const TemporaryFolder folder;
  folder.write("train.csv", "text,label\ncaf\xe9!,1\nna\xc3\xafve \xff\xfe,0\n");
  const auto reader = open_samples(folder.path(), Part::train);
  EXPECT_THAT(described(*reader), ElementsAre("1 caf!", "0 na\u00efve "));
  EXPECT_EQ(reader->dropped_bytes(), 3);
}

TEST(OpenSamples, reads_text_alone_to_the_byte_where_it_is_asked_for) {
  const TemporaryFolder folder;
  const Columns alone{.text = "", .label = "", .text_alone = true};
  folder.write("train.csv", "id,text\n1,a\xff b\n2,\"c\r\n\"\n");
  EXPECT_THAT(described(folder.path(), Part::train, alone), ElementsAre(" a\xff b", " c\r\n"));
  folder.write("test.jsonl", "{\"text\": \"a\\n\"}\n");
  EXPECT_THAT(described(folder.path(), Part::test, alone), ElementsAre(" a\n"));
  EXPECT_THAT(refusal([&] { described(folder.path(), Part::train); }), HasSubstr("no column \"label\""));
  EXPECT_THAT(refusal_of("train.csv", "a,b\n1,2\n", alone), HasSubstr("no column \"text\" or \"review\""));
}

TEST(OpenSamples, refuses_a_missing_path) {
  EXPECT_EQ(refusal([] { described("/nowhere/imdb", Part::train); }), "/nowhere/imdb: no such file or folder");
}

TEST(OpenSamples, refuses_a_folder_without_reviews) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal([&] { described(folder.path(), Part::test); }),
              HasSubstr(": no testing samples; expected one of"));
  folder.write("test/pos/0_9.txt", "x");
  EXPECT_THAT(refusal([&] { described(folder.path(), Part::test); }), HasSubstr("test/neg: missing"));
}

TEST(OpenSamples, refuses_an_empty_file_and_one_with_a_header_only) {
  EXPECT_THAT(refusal_of_csv(""), HasSubstr("train.csv: the file is empty"));
  EXPECT_THAT(refusal_of_csv("text,label\n"), HasSubstr("train.csv: no samples follow the header"));
}

TEST(OpenSamples, names_the_columns_that_lack_and_those_found) {
  EXPECT_THAT(
      refusal_of_csv("body,label\nx,1\n"),
      HasSubstr("train.csv:1: no column \"text\" or \"review\", and no column is named by --text-column; found: "
                "\"body\", \"label\""));
  EXPECT_THAT(refusal_of_csv("text,stars\nx,1\n"),
              HasSubstr("no column \"label\" or \"sentiment\", and no column is named by --label-column"));
  EXPECT_THAT(refusal_of("train.jsonl", "{\"body\": \"x\", \"stars\": 1}\n", {.text = "body", .label = "star"}),
              HasSubstr("train.jsonl:1: no column \"star\" (--label-column); found: \"body\", \"stars\""));
  EXPECT_THAT(refusal_of("train.tsv", "a\tb\nx\t1\n", {.text = "a", .label = "a"}),
              HasSubstr("train.tsv:1: text and label are the same column, \"a\""));
}

TEST(OpenSamples, refuses_two_columns_of_one_name_unless_another_is_used) {
  EXPECT_THAT(refusal_of_csv("text,label,Text\na,1,b\n"),
              HasSubstr("train.csv:1: expected one column with this name, found \"text\" and \"Text\""));
  EXPECT_THAT(refusal_of("train.tsv", "a\tb\tb\nx\t1\t2\n", {.text = "a", .label = "b"}),
              HasSubstr("train.tsv:1: expected one column with this name, found \"b\" and \"b\""));
  const TemporaryFolder folder;
  folder.write("train.csv", "text,label,Text,id,id\na,1,b,5,6\n");
  EXPECT_THAT(described(folder.path(), Part::train, {.text = "Text", .label = ""}), ElementsAre("1 b"));
}

TEST(OpenSamples, refuses_two_files_of_one_part_but_a_file_and_its_gzipped_twin) {
  const TemporaryFolder folder;
  folder.write("train.csv", "text,label\na,1\n");
  folder.write_gzipped("train.csv.gz", "text,label\na,1\n");
  EXPECT_THAT(described(folder.path(), Part::train), ElementsAre("1 a"));
  folder.write("train.jsonl", "{\"text\": \"b\", \"label\": 1}\n");
  EXPECT_EQ(refusal([&] { described(folder.path(), Part::train); }),
            folder.path() + ": has train.csv and train.jsonl, expected one file of training samples");
}

TEST(OpenSamples, reads_the_columns_that_are_named) {
  const TemporaryFolder folder;
  folder.write("train.csv", "text,label,Body,stars\nno,1,a,5\n");
  EXPECT_THAT(described(folder.path(), Part::train, {.text = "Body", .label = "stars"}), ElementsAre("5 a"));
  EXPECT_THAT(described(folder.path(), Part::train, {.text = "Body", .label = ""}), ElementsAre("1 a"));
}

TEST(OpenSamples, reads_tabs_as_they_are) {
  const TemporaryFolder folder;
  folder.write_gzipped("train.tsv.gz", "label\ttext\r\nsport\t\"a, b\" c\"\r\n\npolitics\td\n");
  EXPECT_THAT(described(folder.path(), Part::train), ElementsAre("sport \"a, b\" c\"", "politics d"));
  EXPECT_THAT(refusal_of("train.tsv", "label\ttext\na\tb\tc\n"), HasSubstr("train.tsv:2: expected 2 fields"));
}

TEST(OpenSamples, reads_json_lines) {
  const TemporaryFolder folder;
  const std::string lines =
      "{\"text\": \"a\\n\\u00e9\", \"label\": 3}\r\n\n{\"label\": \"x y\", \"id\": [1], \"text\": \"b\"}\n"
      "{\"text\": \"\", \"label\": true}";
  folder.write("train.jsonl", lines);
  folder.write_gzipped("test.jsonl.gz", lines);
  const auto expected = ElementsAre("3 a\n\u00e9", "x y b", "true ");
  EXPECT_THAT(described(folder.path(), Part::train), expected);
  EXPECT_THAT(described(folder.path(), Part::test), expected);
  EXPECT_THAT(described(folder.path("test.jsonl.gz"), Part::test), expected);
}

TEST(OpenSamples, names_the_line_of_what_is_no_json_object_with_text_and_label) {
  const std::string first = "{\"text\": \"a\", \"label\": 1}\n";
  EXPECT_THAT(refusal_of("train.jsonl", ""), HasSubstr("train.jsonl: the file is empty"));
  EXPECT_THAT(refusal_of("train.jsonl", first + "{\"text\": "), HasSubstr("train.jsonl:2: expected a JSON object"));
  EXPECT_THAT(refusal_of("train.jsonl", first + "[]\n"),
              HasSubstr("train.jsonl:2: expected a JSON object, found \"[]\""));
  EXPECT_THAT(refusal_of("train.jsonl", first + "{\"label\": 1}\n"),
              HasSubstr("train.jsonl:2: no \"text\", which the first line has; found: \"label\""));
  EXPECT_THAT(refusal_of("train.jsonl", first + "{\"text\": 5, \"label\": 1}\n"),
              HasSubstr("train.jsonl:2: \"text\" is number, expected a string"));
  EXPECT_THAT(refusal_of("train.jsonl", first + "{\"text\": \"b\", \"label\": null}\n"),
              HasSubstr("train.jsonl:2: \"label\" is null, expected a string, a number or a boolean"));
}

TEST(OpenSamples, shows_the_control_characters_of_a_file_escaped) {
  EXPECT_THAT(refusal_of_csv("text,\x1b]0;title\x07\nx,1\n"), HasSubstr("found: \"text\", \"\\x1b]0;title\\x07\""));
  EXPECT_THAT(refusal_of_csv("text,label\n\"a\"\x1b,1\n"), HasSubstr("closes before '\\x1b' instead"));
}

TEST(OpenSamples, names_the_line_of_a_broken_quote) {
  EXPECT_THAT(refusal_of_csv("text,label\na,1\n\"b,0\nc,1\n"), HasSubstr("train.csv:3: a quote opens here"));
}

TEST(OpenSamples, says_what_is_wrong_in_one_line) {
  const std::string message = refusal_of_csv("text,\"many\nlines " + std::string(500, 'y') + "\"\nx,1\n");
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_LT(message.size(), 300u);
}

// The counts are those that Python's csv module finds in the same files.
TEST(OpenSamples, reads_the_real_reviews) {
  real_data("imdb/train.csv.gz");
  for (const auto& [part, positive] : {std::pair{Part::train, 12498}, std::pair{Part::test, 12496}}) {
    const auto reader = open_samples(real_data("imdb"), part);
    int64_t samples = 0, found = 0;
    for (Sample sample; reader->next(sample); ++samples) found += sample.label == "1";
    EXPECT_EQ(samples, 24996);
    EXPECT_EQ(found, positive);
    EXPECT_EQ(reader->dropped_bytes(), 0);
  }
}

TEST(BalancedOrder, takes_classes_by_turns_and_goes_on_where_one_runs_out) {
  const std::vector<int32_t> two = {0, 0, 1, 0, 1, 0, 0}, three = {0, 2, 2, 1, 2};
  EXPECT_THAT(balanced_order(two, 4), ElementsAre(2, 0, 4, 1));
  EXPECT_THAT(balanced_order(two, 100), ElementsAre(2, 0, 4, 1, 3, 5, 6));
  EXPECT_TRUE(balanced_order(two, 0).empty());
  EXPECT_THAT(balanced_order(three, 4), ElementsAre(1, 3, 0, 2));
}

}  // namespace
}  // namespace adjoin::data
