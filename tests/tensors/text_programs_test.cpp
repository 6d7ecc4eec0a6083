// Texts that exported programs read: as classes, and as the next token.

#include <gmock/gmock.h>

#include <cmath>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/tensors/decoder_program.hpp"
#include "adjoin/tensors/text_program.hpp"
#include "adjoin/train/tasks.hpp"
#include "adjoin/train/trainer.hpp"
#include "tests/program/cases.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/program_texts.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::train {
namespace {

using namespace adjoin::testing;
using ::testing::HasSubstr;

/// The losses of some steps, and what an evaluation gives after them.
std::vector<double> learned_from_texts(Configuration c, const Communicator& world) {
  const Silence silence;
  const std::unique_ptr<Task> task = make_task(c, {});
  Trainer trainer(c, *task, world);
  trainer.initialize();
  std::vector<double> found;
  for (int64_t step = 0; step < 3; ++step)
    found.push_back(trainer.step(std::vector<int64_t>{0, 3, 5, 6, 11, 13}, step, 3e-2).loss);
  const Evaluation evaluation = trainer.evaluate(data::Part::test, 3);
  found.push_back(evaluation.loss);
  for (const Measure& measure : evaluation.measures) found.push_back(measure.value);
  return found;
}

TEST(TextPrograms, learn_alike_in_every_layout) {
  const test::TemporaryFolder folder;
  for_each_world({2, 3}, [&](const Communicator& world) {
    const std::string place = text_from_rank(0, folder.path().string(), world);
    const std::string programs = program::cases(world).string();
    if (world.rank() == 0) write_texts(place);
    world.barrier();
    for (const bool is_decoder : {false, true}) {
      Configuration c = of_texts(programs, place, is_decoder);
      const std::vector<double> expected = learned_from_texts(c, Communicator());
      EXPECT_LT(expected[2], expected[0]) << "nothing was learned, so agreement would mean little";
      c.dp = world.size();
      c.microbatches = 2;
      if (!is_decoder) c.microbatches = 1;  // masks are those of a micro-batch
      const std::vector<double> found = learned_from_texts(c, world);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], 1e-9) << c.program << " number " << i;
    }
  });
}

TEST(TextPrograms, are_refused_with_other_inputs_and_scores) {
  const test::TemporaryFolder folder;
  const std::string programs = program::cases().string();
  write_texts(folder.path().string());
  const auto expect = [&](bool is_decoder, const char* name, const char* what) {
    Configuration c = of_texts(programs, folder.path().string(), is_decoder);
    c.program = programs + name;
    const Silence silence;
    EXPECT_THAT(thrown_by<InvalidArgument>([&] { make_task(c, {}); }), HasSubstr(what));
  };
  expect(false, "/transformer.pt2", "input \"ids\" is Long [");
  expect(false, "/writer.pt2", "its output is Double [");
  expect(true, "/texts.pt2", "expected scores [texts, tokens, words] of the ");
}

}  // namespace
}  // namespace adjoin::train
