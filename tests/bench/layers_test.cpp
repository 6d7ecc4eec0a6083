#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/bench/layouts.hpp"

namespace adjoin::test {
namespace {

using ::testing::HasSubstr;

const std::string kSmallLayers = "layers --batch 2 --channels 4 --size 16 --rows 8 --features 12 --times 2 ";

TEST(BenchLayers, prints_json_of_each_layer_on_threads_and_in_an_mpi_job) {
  for (const Outcome& outcome :
       {run_layouts(kSmallLayers + "--json --ranks 3 --cut channels"), run_layouts(kSmallLayers + "--json", 2)}) {
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto rows = nlohmann::json::parse(outcome.out);
    ASSERT_EQ(rows.size(), 6);
    EXPECT_EQ(rows[0].at("layer"), "conv");
    for (const auto& row : rows) {
      for (const char* key : {"seconds", "forward_seconds", "backward_seconds", "local_seconds", "ratio"})
        EXPECT_GT(row.at(key).get<double>(), 0) << row.at("layer") << " " << key;
      EXPECT_EQ(row.at("peak_memory_bytes").size(), row.at("ranks").get<size_t>());
    }
  }
}

TEST(BenchLayers, says_that_its_json_is_a_list) {
  EXPECT_THAT(run_layouts("layers --help").out, HasSubstr("Print a JSON list"));
  EXPECT_THAT(run_layouts("matmul --help").out, HasSubstr("Print one JSON object"));
}

TEST(BenchLayers, prints_a_table_of_one_layer_for_people) {
  const Outcome table = run_layouts(kSmallLayers + "--layer max-pool --cut batch");
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.out, HasSubstr("max-pool on 2 ranks"));
  EXPECT_THAT(table.out, HasSubstr("median of the ratios"));
}

}  // namespace
}  // namespace adjoin::test
