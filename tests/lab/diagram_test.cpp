#include "adjoin/lab/diagram.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace adjoin::lab {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> labels_of(const Diagram& diagram) {
  std::vector<std::string> labels;
  for (const Diagram::Tick& tick : diagram.ticks) labels.push_back(tick.label);
  return labels;
}

TEST(Diagrams, of_recorded_messages_go_by_steps) {
  const Recording recording{
      .ranks = 3,
      .messages = {{.from = 0, .to = 1, .bytes = 64, .step = 1}, {.from = 1, .to = 2, .bytes = 2048, .step = 2}}};
  const Diagram diagram = diagram_of(recording, "ring");
  EXPECT_EQ(diagram.ranks, 3);
  EXPECT_THAT(labels_of(diagram), ElementsAre("", "1", "2"));
  ASSERT_EQ(diagram.arrows.size(), 2u);
  EXPECT_EQ(diagram.arrows[1].begin, 1);
  EXPECT_EQ(diagram.arrows[1].end, 2);
  EXPECT_EQ(diagram.arrows[1].label, "2 KiB");
  EXPECT_EQ(diagram.arrows[0].tip, "step 1: 0 -> 1, 64 bytes");
}

TEST(Diagrams, of_simulated_messages_go_by_time_with_round_marks) {
  const algorithm::Network network{.alpha = 1e-6, .beta = 1e-9};
  const std::vector<SimulatedMessage> messages = {
      {.from = 0, .to = 1, .bytes = 250, .step = 1, .begin = {}, .end = {1, 250}},
      {.from = 1, .to = 0, .bytes = 0, .step = 2, .begin = {1, 250}, .end = {2, 250}}};
  const Diagram diagram = diagram_of(messages, 2, network, "");
  EXPECT_THAT(labels_of(diagram), ElementsAre("0", "500 ns", "1 us", "1.5 us", "2 us", ""));
  EXPECT_DOUBLE_EQ(diagram.ticks.back().at, 2.25e-6);
  EXPECT_DOUBLE_EQ(diagram.arrows[0].end, 1.25e-6);
  EXPECT_EQ(diagram.arrows[1].tip, "step 2: 1 -> 0, 0 bytes, 1.25 us to 2.25 us");
}

TEST(Diagrams, of_nothing_have_no_time) {
  EXPECT_TRUE(diagram_of(Recording{.ranks = 2, .messages = {}}, "").arrows.empty());
  EXPECT_THAT(labels_of(diagram_of(std::vector<SimulatedMessage>(), 2, {}, "")), ElementsAre("0"));
}

}  // namespace
}  // namespace adjoin::lab
