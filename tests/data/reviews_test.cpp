#include "adjoin/data/reviews.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/data/data_files.hpp"

namespace adjoin::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> described(const Reviews& reviews) {
  std::vector<std::string> all;
  for (const Review& review : reviews.samples) all.push_back(std::to_string(review.label) + " " + review.text);
  return all;
}

std::string refusal_of_csv(const std::string& content) {
  const TemporaryFolder folder;
  folder.write("train.csv", content);
  return refusal([&] { load_reviews(folder.path(), Part::train); });
}

TEST(LoadReviews, reads_train_and_test_files_plain_or_gzipped) {
  const TemporaryFolder folder;
  folder.write_gzipped("train.csv.gz", "text,label\n\"good, <br />very\",1\nbad,0\n");
  folder.write("test.csv", "text,label\nfine,1\n");
  EXPECT_THAT(described(load_reviews(folder.path(), Part::train)), ElementsAre("1 good, <br />very", "0 bad"));
  EXPECT_THAT(described(load_reviews(folder.path(), Part::test)), ElementsAre("1 fine"));
}

TEST(LoadReviews, reads_dataset_files_with_a_review_column_and_labels_in_words) {
  const TemporaryFolder folder;
  folder.write("dataset_train.csv", "id,Label,Review\n7,positive,a\n8,negative,b\n9, Pos ,c\n10,NEG,d\n");
  folder.write("dataset_val.csv", "review,sentiment\ne,neg\n");
  EXPECT_THAT(described(load_reviews(folder.path(), Part::train)), ElementsAre("1 a", "0 b", "1 c", "0 d"));
  EXPECT_THAT(described(load_reviews(folder.path(), Part::test)), ElementsAre("0 e"));
}

TEST(LoadReviews, reads_the_folder_tree_in_the_order_of_file_names) {
  const TemporaryFolder folder;
  for (const char* name : {"train/pos/2_9.txt", "train/pos/0_7.txt", "train/neg/1_1.txt", "train/unsup/3_0.txt"})
    folder.write(name, name);
  folder.write("train/pos/readme", "not a review");
  folder.write("test/pos/0_10.txt", "p\n");
  folder.write("test/neg/0_2.txt", "n");
  EXPECT_THAT(described(load_reviews(folder.path(), Part::train)),
              ElementsAre("1 train/pos/0_7.txt", "1 train/pos/2_9.txt", "0 train/neg/1_1.txt"));
  EXPECT_THAT(described(load_reviews(folder.path(), Part::test)), ElementsAre("1 p\n", "0 n"));
}

TEST(LoadReviews, takes_one_file_for_the_test_part_only) {
  const TemporaryFolder folder;
  const std::string path = folder.write("my.csv", "text,label\nfine,1\n");
  EXPECT_THAT(described(load_reviews(path, Part::test)), ElementsAre("1 fine"));
  EXPECT_THAT(refusal([&] { load_reviews(path, Part::train); }),
              HasSubstr("my.csv: is a file; training needs a folder"));
}

TEST(LoadReviews, drops_and_counts_bytes_that_are_not_utf8) {
  const TemporaryFolder folder;
  folder.write("train.csv", "text,label\ncaf\xe9!,1\nna\xc3\xafve \xff\xfe,0\n");
  const Reviews reviews = load_reviews(folder.path(), Part::train);
  EXPECT_THAT(described(reviews), ElementsAre("1 caf!", "0 na\u00efve "));
  EXPECT_EQ(reviews.dropped_bytes, 3);
}

TEST(LoadReviews, refuses_a_missing_path) {
  EXPECT_EQ(refusal([] { load_reviews("/nowhere/imdb", Part::train); }), "/nowhere/imdb: no such file or folder");
}

TEST(LoadReviews, refuses_a_folder_without_reviews) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal([&] { load_reviews(folder.path(), Part::test); }),
              HasSubstr(": no testing reviews; expected one of"));
  folder.write("test/pos/0_9.txt", "x");
  EXPECT_THAT(refusal([&] { load_reviews(folder.path(), Part::test); }), HasSubstr("test/neg: missing"));
}

TEST(LoadReviews, refuses_an_empty_file_and_one_with_a_header_only) {
  EXPECT_THAT(refusal_of_csv(""), HasSubstr("train.csv: the file is empty"));
  EXPECT_THAT(refusal_of_csv("text,label\n"), HasSubstr("train.csv: no reviews follow the header"));
}

TEST(LoadReviews, names_the_columns_that_lack_and_those_found) {
  EXPECT_THAT(refusal_of_csv("body,label\nx,1\n"),
              HasSubstr("train.csv:1: no column \"text\" or \"review\"; the header must name \"text\" (or \"review\") "
                        "and \"label\", found: \"body\", \"label\""));
  EXPECT_THAT(refusal_of_csv("text,stars\nx,1\n"), HasSubstr("no column \"label\""));
  EXPECT_THAT(refusal_of_csv("a\nx\n"), HasSubstr("no known columns"));
}

TEST(LoadReviews, shows_the_control_characters_of_a_file_escaped) {
  EXPECT_THAT(refusal_of_csv("text,label\na,\x1b[2J\x7f\n"), HasSubstr("unknown label \"\\x1b[2J\\x7f\";"));
  EXPECT_THAT(refusal_of_csv("text,\x1b]0;title\x07\nx,1\n"), HasSubstr("found: \"text\", \"\\x1b]0;title\\x07\""));
  EXPECT_THAT(refusal_of_csv("text,label\n\"a\"\x1b,1\n"), HasSubstr("closes before '\\x1b' instead"));
}

TEST(LoadReviews, names_the_line_of_an_unknown_label) {
  EXPECT_THAT(refusal_of_csv("text,label\n\"a\nb\",1\nc,2\n"),
              HasSubstr("train.csv:4: unknown label \"2\"; expected 0 or 1, neg or pos, negative or positive"));
}

TEST(LoadReviews, names_the_line_of_a_broken_quote) {
  EXPECT_THAT(refusal_of_csv("text,label\na,1\n\"b,0\nc,1\n"), HasSubstr("train.csv:3: a quote opens here"));
}

TEST(LoadReviews, says_what_is_wrong_in_one_line) {
  const std::string message = refusal_of_csv("text,label\nx,\"many\nlines " + std::string(500, 'y') + "\"\n");
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_LT(message.size(), 300u);
}

// The counts are those that Python's csv module finds in the same files.
TEST(LoadReviews, reads_the_real_reviews) {
  real_data("imdb/train.csv.gz");
  for (const auto& [part, positive] : {std::pair{Part::train, 12498}, std::pair{Part::test, 12496}}) {
    const auto [samples, dropped_bytes] = load_reviews(real_data("imdb"), part);
    EXPECT_EQ(samples.size(), 24996u);
    EXPECT_EQ(std::count_if(samples.begin(), samples.end(), [](const Review& r) { return r.label == 1; }), positive);
    EXPECT_EQ(dropped_bytes, 0);
  }
}

TEST(BalancedOrder, alternates_and_goes_on_where_one_kind_runs_out) {
  const std::vector<int> labels = {0, 0, 1, 0, 1, 0, 0};
  EXPECT_THAT(balanced_order(labels, 4), ElementsAre(2, 0, 4, 1));
  EXPECT_THAT(balanced_order(labels, 100), ElementsAre(2, 0, 4, 1, 3, 5, 6));
  EXPECT_TRUE(balanced_order(labels, 0).empty());
}

TEST(TakeBalanced, keeps_text_and_label_together) {
  const auto taken = take_balanced({{"a", 0}, {"b", 0}, {"c", 1}}, 2);
  EXPECT_THAT(described({taken}), ElementsAre("1 c", "0 a"));
}

}  // namespace
}  // namespace adjoin::data
