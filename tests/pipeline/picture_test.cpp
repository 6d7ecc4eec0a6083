#include "adjoin/pipeline/picture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "tests/support/failures.hpp"

namespace adjoin::pipeline {
namespace {

using adjoin::testing::thrown_by;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Scene {
  Schedule schedule;
  Costs costs;
  Timeline timeline;

  explicit Scene(Schedule of, const StageCosts& of_rank = {}, double transfer = 0)
      : schedule(std::move(of)), costs(equal_costs(schedule, of_rank, transfer)), timeline(simulate(schedule, costs)) {}
  std::string picture(const Page& page = {}) const { return picture_of(schedule, costs, timeline, page); }
};

TEST(SchedulePicture, draws_a_line_a_rank_to_scale) {
  EXPECT_EQ(Scene(make_schedule("1f1b", 2, 2)).picture({.columns = 30, .most_rows = 32}),
            "rank\n"
            "   0  F0F1....B0==..B1==\n"
            "   1  ..F0B0==F1B1==....\n"
            "\n"
            "F forward, B backward, . idle\n"
            "a column is 0.5\n");
  // A column is what is in its middle: rank 1 begins at 1.5.
  EXPECT_EQ(Scene(make_schedule("zb-h1", 2, 2), {1, 1, 1}, /*transfer=*/0.5).picture({.columns = 14, .most_rows = 32}),
            "rank\n"
            "   0  FF..IWIW\n"
            "   1  .FIFIWW.\n"
            "\n"
            "F forward, I input gradient, W weight gradient, . idle\n"
            "a column is 1\n");
}

TEST(SchedulePicture, names_stages_where_there_is_room) {
  EXPECT_THAT(Scene(make_schedule("interleaved", 1, 1, 2), {2, 1, 1}).picture(),
              HasSubstr("0F0=====1F0=====1B0=====0B0=====\n"));
  EXPECT_THAT(Scene(make_schedule("interleaved", 2, 2, 2)).picture({.columns = 24, .most_rows = 2}),
              HasSubstr("   0  FFFF..B=.B=B=B=\n"));
}

TEST(SchedulePicture, fits_its_page) {
  for (const std::string_view name : schedule_names())
    for (const int ranks : {1, 2, 7, 33, 200})
      for (const int micro_batches : {1, 3, 50, 300}) {
        const std::string picture = Scene(make_schedule(name, ranks, micro_batches), {1.5, 0.7, 0.1}, 0.01).picture();
        const auto lines = parts_of(picture, '\n');
        EXPECT_EQ(lines.size(), static_cast<size_t>(std::min(ranks, 32)) + 5);
        for (const std::string_view line : lines) EXPECT_LE(line.size(), 80u) << line;
        EXPECT_THAT(picture, HasSubstr("\n" + std::string(4 - std::to_string(ranks - 1).size(), ' ') +
                                       std::to_string(ranks - 1) + "  "));  // the last rank is there
      }
}

TEST(SchedulePicture, shows_what_most_of_a_column_is_where_actions_are_shorter) {
  // Columns of 3: two forwards and half a backward, a backward and a half.
  EXPECT_THAT(Scene(make_schedule("gpipe", 1, 2)).picture({.columns = 8, .most_rows = 1}), HasSubstr("   0  FB\n"));
  // Of 4.5: two forwards of 1 and then idle, two backwards of 2 after half of 1.
  EXPECT_THAT(Scene(make_schedule("gpipe", 2, 2)).picture({.columns = 8, .most_rows = 2}), HasSubstr("   0  .B\n"));
  // One column of as many of each kind.
  EXPECT_THAT(Scene(make_schedule("zb-h1", 1, 4)).picture({.columns = 7, .most_rows = 1}),
              HasSubstr("   0  *\n\n* several, . idle\na column is 12\n"));
}

TEST(SchedulePicture, draws_what_takes_no_time) {
  EXPECT_EQ(Scene(make_schedule("gpipe", 2, 2), {0, 0, 0}).picture(), "rank\n   0  \n   1  \n\n. idle\n");
  EXPECT_THAT(Scene(make_schedule("gpipe", 1, 2), {0, 1, 0}).picture(), HasSubstr("   0  B0======B1======\n"));
  EXPECT_THAT(Scene(make_schedule("gpipe", 1, 1), {1e-300, 1e-300, 0}).picture(), HasSubstr(". idle"));
  EXPECT_THAT(Scene(make_schedule("gpipe", 1, 1), {1e-200, 1e100, 0}).picture(), HasSubstr("   0  BBBB"));
}

TEST(SchedulePicture, is_svg_with_a_box_an_action) {
  const Scene scene(make_schedule("zb-h1", 3, 4));
  const std::string svg = svg_of(scene.schedule, scene.costs, scene.timeline, "zb-h1 & more");
  EXPECT_THAT(svg, AllOf(StartsWith("<svg "), EndsWith("</svg>\n"), HasSubstr(">rank 2</text>"), HasSubstr("&amp;"),
                         HasSubstr("<title>2F1: forward, stage 2, micro-batch 1, from 4 to 5</title>")));
  size_t boxes = 0;
  for (size_t at = svg.find("<g>"); at != std::string::npos; at = svg.find("<g>", at + 1)) ++boxes;
  EXPECT_EQ(boxes, 36u);
}

TEST(SchedulePicture, is_no_svg_of_too_many_actions) {
  const Scene scene(make_schedule("gpipe", 101, 100));
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { svg_of(scene.schedule, scene.costs, scene.timeline, ""); }),
            "an SVG picture: expected at most 20,000 actions, got 20,200");
}

}  // namespace
}  // namespace adjoin::pipeline
