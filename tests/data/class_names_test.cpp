#include "adjoin/data/class_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/data/data_files.hpp"

namespace adjoin::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Labels labels_in(const std::string& csv, const std::optional<ClassNames>& given = {}) {
  const TemporaryFolder folder;
  folder.write("train.csv", "text,label\n" + csv);
  return read_labels(*open_samples(folder.path(), Part::train), given);
}

TEST(ClassNames, are_negative_and_positive_where_labels_say_so_in_any_way) {
  EXPECT_THAT(ClassNames::of({"1"}).names(), ElementsAre("negative", "positive"));
  EXPECT_THAT(ClassNames::of({"Pos", "NEG", "0"}).names(), ElementsAre("negative", "positive"));
  EXPECT_EQ(ClassNames().find("pos"), 1);
  EXPECT_EQ(ClassNames().find("0"), 0);
  EXPECT_EQ(ClassNames().find("2"), std::nullopt);
}

TEST(ClassNames, are_whole_numbers_in_their_order_and_words_alphabetically) {
  EXPECT_THAT(ClassNames::of({"10", "9", "-1"}).names(), ElementsAre("-1", "9", "10"));
  EXPECT_THAT(ClassNames::of({"10", "9", "x"}).names(), ElementsAre("10", "9", "x"));
  EXPECT_THAT(ClassNames::of({"pos", "neg", "neutral"}).names(), ElementsAre("neg", "neutral", "pos"));
  EXPECT_EQ(ClassNames::of({"10", "9", "-1"}).find("10"), 2);
}

TEST(ClassNames, are_refused_where_they_do_not_tell_classes_apart) {
  EXPECT_THAT(refusal([] { ClassNames(std::vector<std::string>{}); }), HasSubstr("got none"));
  EXPECT_THAT(refusal([] { ClassNames({"a", "b", "a"}); }), HasSubstr("two classes are named \"a\""));
  EXPECT_THAT(refusal([] { ClassNames({"a", ""}); }), HasSubstr("the name of a class is empty"));
}

TEST(ReadLabels, gives_each_sample_its_class) {
  const Labels labels = labels_in("a,sport\nb, world  news \nc,sport\nd,\"world\nnews\"\ne,art\n");
  EXPECT_THAT(labels.classes.names(), ElementsAre("art", "sport", "world news"));
  EXPECT_THAT(labels.of_sample, ElementsAre(1, 2, 1, 2, 0));
}

TEST(ReadLabels, takes_the_given_classes_and_names_the_line_of_another_label) {
  const ClassNames given({"art", "sport"});
  EXPECT_THAT(labels_in("a,sport\n", given).of_sample, ElementsAre(1));
  EXPECT_THAT(refusal([&] { labels_in("\"a\nb\",art\nc,\x1b[2J\x7f\n", given); }),
              HasSubstr("train.csv:4: unknown label \"\\x1b[2J\\x7f\"; expected one of \"art\", \"sport\""));
  EXPECT_THAT(refusal([&] { labels_in("a,1\nb,2\n", ClassNames()); }),
              HasSubstr("train.csv:3: unknown label \"2\"; expected 0 or 1, neg or pos, negative or positive"));
}

TEST(ReadLabels, names_the_line_of_an_empty_label) {
  EXPECT_THAT(refusal([&] { labels_in("a,x\nb, \n"); }), HasSubstr("train.csv:3: the label is empty"));
}

}  // namespace
}  // namespace adjoin::data
