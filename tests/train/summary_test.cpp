#include "adjoin/train/summary.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace adjoin::train {
namespace {

Summary two_ranks() {
  Summary summary{.configuration = configuration_of("tiny"),
                  .ranks = {{0, 1234567, 3 << 20}, {1, 999, 1 << 19}},
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
