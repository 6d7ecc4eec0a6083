#include "adjoin/train/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace adjoin::train {
namespace {

Summary two_ranks() {
  Summary summary{.configuration = configuration_of("tiny"),
                  .ranks = {{.rank = 0, .parameters = 1234567, .peak_memory_bytes = 3 << 20},
                            {.rank = 1, .parameters = 999, .peak_memory_bytes = 1 << 19}},
                  .train_loss = 0.25,
                  .test_loss = 0.5,
                  .test_measures = {{"accuracy", 0.87654, true}},
                  .train_seconds = 123.44,
                  .skipped_steps = 1234};
  summary.configuration.tp = 2;
  return summary;
}

TEST(Summary, has_the_documented_keys) {
  const nlohmann::ordered_json json = to_json(two_ranks());
  EXPECT_EQ(json.at("config").at("preset"), "tiny");
  EXPECT_EQ(json.at("layout").at("dp"), 1);
  EXPECT_EQ(json.at("layout").at("tp"), 2);
  EXPECT_EQ(json.at("ranks").dump(), R"([{"rank":0,"stages":[],"parameters":1234567,"peak_memory_bytes":3145728},)"
                                     R"({"rank":1,"stages":[],"parameters":999,"peak_memory_bytes":524288}])");
  EXPECT_EQ(json.at("train_loss"), 0.25);
  EXPECT_EQ(json.at("test_loss"), 0.5);
  EXPECT_EQ(json.at("test_accuracy"), 0.87654);
  EXPECT_EQ(json.at("train_seconds"), 123.44);
  EXPECT_EQ(json.at("skipped_steps"), 1234);
}

Summary with_times() {
  Summary summary = two_ranks();
  summary.ranks[0].times = {.computing = 6, .waiting = 1, .communicating = 2.5, .data = 0.5, .hidden = 3};
  summary.ranks[1].times = {.computing = 10};
  return summary;
}

TEST(Summary, tells_where_the_time_of_each_rank_went) {
  const nlohmann::ordered_json json = to_json(with_times()).at("ranks")[0];
  EXPECT_EQ(json.at("computing_seconds"), 6);
  EXPECT_EQ(json.at("waiting_seconds"), 1);
  EXPECT_EQ(json.at("communicating_seconds"), 2.5);
  EXPECT_EQ(json.at("data_seconds"), 0.5);
  EXPECT_EQ(json.at("hidden_seconds"), 3);
  std::ostringstream out;
  print_table(out, with_times());
  EXPECT_THAT(out.str(), ::testing::EndsWith("  rank  computing  waiting  communicating  reading data\n"
                                             "     0     60.0 %   10.0 %         25.0 %         5.0 %\n"
                                             "     1    100.0 %    0.0 %          0.0 %         0.0 %\n"));
}

TEST(Summary, has_the_last_step_of_a_pipeline) {
  Summary summary = two_ranks();
  summary.last_step = 7;
  summary.pipeline_step = {{{.action = {0, pipeline::Kind::forward, 1}, .begin = 0.5, .end = 1}}, {}};
  EXPECT_EQ(
      to_json(summary).at("pipeline_step").dump(),
      R"({"step":7,"ranks":[{"rank":0,"actions":[{"action":"F","stage":0,"microbatch":1,"begin":0.5,"end":1.0}]},)"
      R"({"rank":1,"actions":[]}]})");
}

TEST(Summary, is_printed_as_an_aligned_table) {
  std::ostringstream out;
  print_table(out, two_ranks());
  EXPECT_EQ(out.str(),
            "  test accuracy   87.65 %\n"
            "  test loss        0.5000\n"
            "  training loss    0.2500\n"
            "  training time   123.4 s\n"
            "  skipped steps     1,234\n"
            "\n"
            "  rank  parameters  peak tensor memory\n"
            "     0   1,234,567             3.0 MiB\n"
            "     1         999             0.5 MiB\n");
}

}  // namespace
}  // namespace adjoin::train
