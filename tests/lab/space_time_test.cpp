#include "adjoin/lab/diagram.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace adjoin::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

Diagram diagram_of(int ranks) {
  return {.title = "a < b & c",
          .axis = "step",
          .ranks = ranks,
          .ticks = {{.at = 0, .label = "0"}, {.at = 1, .label = "1"}, {.at = 2, .label = "2"}},
          .arrows = {{0, 1, 0, 1, "64 B", "0 -> 1"}, {1, 0, 1, 2, "8 B", "1 -> 0"}}};
}

TEST(SpaceTime, draws_a_line_a_rank_and_an_arrow_a_message) {
  const std::string svg = svg_of(diagram_of(4));
  EXPECT_THAT(svg, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_EQ(count(svg, ">rank "), 4);
  EXPECT_EQ(count(svg, "marker-end="), 2);
  EXPECT_THAT(svg, HasSubstr(">64 B</text>"));
  EXPECT_THAT(svg, HasSubstr("<title>0 -&gt; 1</title>"));
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; c"));
}

TEST(SpaceTime, puts_an_arrow_between_its_ranks_and_its_moments) {
  // Four rows of 64 below 58, and an axis of 640 from 76 on: rank 0 at 90, rank 1 at 154, moment 1 of 2 at 396.
  EXPECT_THAT(svg_of(diagram_of(4)), HasSubstr("<line x1=\"76\" y1=\"90\" x2=\"396\" y2=\"154\""));
}

TEST(SpaceTime, leaves_labels_out_where_there_are_too_many_ranks) {
  EXPECT_THAT(svg_of(diagram_of(kMostLabelledRanks)), HasSubstr(">64 B</text>"));
  EXPECT_THAT(svg_of(diagram_of(kMostLabelledRanks + 1)), Not(HasSubstr(">64 B</text>")));
}

TEST(SpaceTime, draws_nothing_but_ranks_where_nothing_is_sent) {
  const std::string svg = svg_of({.title = "", .axis = "", .ranks = 1, .ticks = {}, .arrows = {}});
  EXPECT_EQ(count(svg, ">rank "), 1);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace adjoin::lab
