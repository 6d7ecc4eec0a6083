#include "adjoin/tensors/tensor_task.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/data/sampler.hpp"
#include "adjoin/store/npy.hpp"
#include "adjoin/train/trainer.hpp"
#include "adjoin/train/training_order.hpp"
#include "tests/program/cases.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/small_program.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::train {
namespace {

using namespace adjoin::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Writes NAME.npy of each tensor.
void write_npy_set(const std::filesystem::path& folder, const std::map<std::string, at::Tensor>& tensors) {
  std::filesystem::create_directories(folder);
  for (const auto& [name, tensor] : tensors) write_npy(folder / (name + ".npy"), tensor);
}

at::Tensor sines(at::IntArrayRef sizes) {
  const int64_t count = c10::multiply_integers(sizes);
  return at::sin(at::arange(count, at::kDouble) * 1.7).view(sizes);
}

/// The losses of some steps of a program, and the loss and the measure of an evaluation afterwards.
std::vector<double> results_of_training(const Configuration& c, const Communicator& world) {
  const auto task = TensorTask::make(c);
  Trainer trainer(c, *task, world);
  trainer.initialize();
  data::Sampler sampler = make_sampler(c, *task, hold_out(c, *task));
  std::vector<double> found;
  for (int64_t step = 0; step < 3; ++step) found.push_back(trainer.step(sampler.next(), step, 1e-2).loss);
  const Evaluation evaluation = trainer.evaluate(data::Part::test);
  found.push_back(evaluation.loss);
  for (const Measure& measure : evaluation.measures) found.push_back(measure.value);
  return found;
}

/// A layout of a world by its number of ranks and a number that varies the rest.
Configuration on_layout(Configuration c, int ranks, int tp, int64_t zero) {
  c.tp = tp;
  c.dp = ranks / tp;
  c.zero = zero;
  return c;
}

TEST(TensorTask, trains_programs_alike_in_every_layout) {
  test::TemporaryFolder folder;
  for_each_world({2, 3, 4}, [&](const Communicator& world) {
    const std::string place = text_from_rank(0, folder.path().string(), world);
    const std::string programs = program::cases(world).string();
    if (world.rank() == 0) {
      write_npy_set(place + "/digits/train", {{"x", sines({20, 1, 8, 8})}, {"y", at::arange(20, at::kLong) % 5}});
      write_npy_set(place + "/digits/test", {{"x", sines({7, 1, 8, 8})}, {"y", at::arange(7, at::kLong) % 5}});
      write_npy_set(place + "/learner", {{"x", sines({25, 6})}, {"y", at::arange(25, at::kLong) % 3}});
      write_npy_set(place + "/numbers", {{"x", sines({25, 6})}, {"y", sines({25, 6}).square()}});
    }
    world.barrier();
    Configuration of_digits;  // with a norm of batches
    of_digits.program = programs + "/cnn.pt2";
    of_digits.data = place + "/digits";
    of_digits.task = kProgramTask;
    of_digits.precision = Precision::fp64;
    of_digits.batch = 8;                   // of which the last of an epoch has 4
    Configuration of_numbers = of_digits;  // which draws which samples it drops
    of_numbers.program = programs + "/path.pt2";
    of_numbers.data = place + "/numbers";
    of_numbers.loss = TensorLoss::mse;
    of_numbers.microbatches = 2;
    Configuration of_learner = of_digits;  // which returns its loss
    of_learner.program = programs + "/learner.pt2";
    of_learner.data = place + "/learner";
    of_learner.loss = TensorLoss::none;
    for (const Configuration& c : {of_digits, of_numbers, of_learner}) {
      validate(c);
      const std::vector<double> expected = results_of_training(c, Communicator());
      EXPECT_GT(std::abs(expected[2] - expected[0]), 1e-3) << "too little has changed for agreement to mean much";
      const int ranks = world.size();
      for (const auto& [tp, zero] : {std::pair(1, 2), std::pair(ranks == 4 ? 2 : ranks, 3)}) {
        const std::vector<double> found = results_of_training(on_layout(c, ranks, tp, zero), world);
        ASSERT_EQ(found.size(), expected.size());
        for (size_t i = 0; i < found.size(); ++i)
          ASSERT_NEAR(found[i], expected[i], 1e-9) << c.program << " tp " << tp << " number " << i;
      }
    }
  });
}

/// A pipeline of a world of some ranks.
struct StagesCase {
  int ranks, pp, tp = 1;
  const char* schedule = "1f1b";
  int64_t zero = 1;
};

TEST(TensorTask, trains_programs_in_stages_as_one_worker_does) {
  const test::TemporaryFolder folder;
  constexpr StagesCase kCases[] = {{2, 2, 1, "gpipe"},   {2, 2, 1, "interleaved"}, {2, 2, 1, "zb-h1"},       {3, 3},
                                   {4, 2, 1, "1f1b", 3}, {4, 2, 1, "1f1b", 2},     {4, 2, 2, "interleaved"}, {4, 4}};
  for_each_world({2, 3, 4}, [&](const Communicator& world) {
    const std::string place = text_from_rank(0, folder.path().string(), world);
    Configuration c;  // a tied head, dropout, values of whole numbers that every stage computes
    c.program = (program::cases(world) / "dropping.pt2").string();
    c.data = place + "/words";
    c.task = kProgramTask;
    c.precision = Precision::fp64;
    c.loss = TensorLoss::mse;
    c.batch = 8;
    c.microbatches = 4;
    if (world.rank() == 0) {
      const at::Tensor ids = at::arange(20 * 7, at::kLong).view({20, 7}) % 19;
      write_npy_set(c.data, {{"x", ids}, {"mask", ids.ne(3).to(at::kLong)}, {"y", sines({20, 7, 20})}});
    }
    world.barrier();
    const std::vector<double> expected = results_of_training(c, Communicator());
    for (const StagesCase& one : kCases) {
      if (one.ranks != world.size()) continue;
      Configuration in_stages = on_layout(c, world.size() / one.pp, one.tp, one.zero);
      in_stages.pp = one.pp;
      in_stages.pipeline = one.schedule;
      in_stages.chunks = in_stages.pipeline == "interleaved" ? 2 : 1;
      // Of four stages some begin within a block, whose rest reads five tensors with gradients.
      in_stages.recompute = one.tp > 1 || one.pp == 4 ? Recompute::segment : Recompute::none;
      validate(in_stages);
      const std::vector<double> found = results_of_training(in_stages, world);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], 1e-9) << one.schedule << " zero " << one.zero << " number " << i;
    }
  });
}

/// The data of a task of relu(x * scale), x [n, 2].
struct SmallTensors {
  SmallTensors() {
    test::write_small_program(folder / "net.pt2");
    c.program = (folder / "net.pt2").string();
    c.data = (folder / "data").string();
    c.task = kProgramTask;
    c.loss = TensorLoss::mse;
  }
  void write(const std::map<std::string, at::Tensor>& tensors) const {
    std::filesystem::remove_all(c.data);
    write_npy_set(c.data, tensors);
  }
  std::string refusal(const std::map<std::string, at::Tensor>& tensors) const {
    write(tensors);
    return thrown_by<InvalidArgument>([&] { TensorTask::make(c); });
  }

  const test::TemporaryFolder folder;
  Configuration c;
};

TEST(TensorTask, measures_r2_and_accuracy_as_they_are_defined) {
  SmallTensors small;
  const at::Tensor x = sines({30, 2}).to(at::kFloat), y = sines({30, 2}) + 0.5;
  small.write({{"x", x}, {"y", y}});
  const at::Tensor tested = x.slice(0, 9, 30, 10), output = at::relu(tested * at::tensor({1.0F, 2.0F})).to(at::kDouble);
  const auto evaluated = [&] {
    const auto task = TensorTask::make(small.c);
    Trainer trainer(small.c, *task, Communicator());
    return trainer.evaluate(data::Part::test, 2);
  };
  const at::Tensor target = y.slice(0, 9, 30, 10), error = output - target;
  Evaluation found = evaluated();
  EXPECT_NEAR(found.loss, error.square().mean().item<double>(), 1e-6);
  EXPECT_EQ(found.measures[0].name, "r2");
  EXPECT_NEAR(found.measures[0].value,
              1 - (error.square().sum() / (target - target.mean()).square().sum()).item<double>(), 1e-6);

  small.c.loss = TensorLoss::cross_entropy;
  const at::Tensor classes = at::arange(30, at::kLong) % 2;
  small.write({{"x", x}, {"y", classes}});
  found = evaluated();
  EXPECT_EQ(found.measures[0].name, "accuracy");
  EXPECT_NEAR(found.measures[0].value,
              output.argmax(1).eq(classes.slice(0, 9, 30, 10)).to(at::kDouble).mean().item<double>(), 1e-12);
  EXPECT_NEAR(found.loss, at::cross_entropy_loss(output, classes.slice(0, 9, 30, 10)).item<double>(), 1e-6);

  small.c.loss = TensorLoss::bce;
  small.write({{"x", x}, {"y", y.gt(0.5)}});
  found = evaluated();
  EXPECT_NEAR(found.loss, at::binary_cross_entropy_with_logits(output, target.gt(0.5).to(at::kDouble)).item<double>(),
              1e-6);
}

TEST(TensorTask, draws_the_masks_of_pytorch_on_one_rank) {
  const test::TemporaryFolder folder;
  const program::Expected expected(program::cases() / "dropping.safetensors");  // after torch.manual_seed(7)
  const std::vector<at::Tensor> inputs = expected.all("input");
  const at::Tensor output = expected["output.0"], y = at::full_like(output, 0.1);
  write_npy_set(folder / "words", {{"x", inputs[0]}, {"mask", inputs[1]}, {"y", y}});
  Configuration c;
  c.program = (program::cases() / "dropping.pt2").string();
  c.data = (folder / "words").string();
  c.test = c.data;
  c.task = kProgramTask;
  c.precision = Precision::fp64;
  c.loss = TensorLoss::mse;
  c.masks = Masks::torch;
  c.seed = 7;
  c.batch = output.size(0);
  validate(c);
  const auto task = TensorTask::make(c);
  Trainer trainer(c, *task, Communicator());
  std::vector<int64_t> samples(static_cast<size_t>(c.batch));
  std::iota(samples.begin(), samples.end(), int64_t{0});
  const auto of_sample = static_cast<double>(output[0].numel()), count = static_cast<double>(c.batch);
  const double loss = (at::mse_loss(output, y, at::Reduction::Sum) / of_sample / count).item<double>();
  EXPECT_EQ(trainer.step(samples, 0, 1e-3).loss, loss);
  EXPECT_NE(trainer.step(samples, 1, 0).loss, loss) << "the generator goes on";
  c.dp = 2;
  EXPECT_THAT(thrown_by<InvalidArgument>([&] { validate(c); }),
              HasSubstr("--masks torch is for a --program on one rank"));
}

TEST(TensorTask, refuses_data_that_the_program_does_not_take) {
  SmallTensors small;
  const at::Tensor x = at::ones({20, 2}), y = at::ones({20, 2});
  const auto expect = [&](const std::map<std::string, at::Tensor>& tensors, const char* what) {
    const std::string refused = small.refusal(tensors);
    EXPECT_THAT(refused, AllOf(HasSubstr(small.c.data + ": "), HasSubstr(what)));
    EXPECT_EQ(refused.find('\n'), std::string::npos);
  };
  expect({{"y", y}}, "lacks \"x\"");
  expect({{"x", x}}, "lacks the target \"y\" of --loss mse");
  expect({{"x", x}, {"y", y}, {"mask", y}}, "\"mask\" is no input");
  expect({{"x", at::ones({20, 3})}, {"y", y}},
         "\"x\" is Float [samples, 3], and input \"x\" of the program takes Float [s0, 2]");
  expect({{"x", at::ones({20, 2}, at::kLong)}, {"y", y}}, "\"x\" is Long [samples, 2]");
  expect({{"x", x}, {"y", at::ones({20})}}, "needs targets of the output's shape");
  expect({{"x", x}, {"y", at::ones({19, 2})}}, "\"y\" has 19 samples, and \"x\" 20");
  expect({{"x", at::ones({9, 2})}, {"y", at::ones({9, 2})}}, "at least 10 samples");
  small.c.loss = TensorLoss::cross_entropy;
  expect({{"x", x}, {"y", at::ones({20})}}, "needs classes as int64");
  expect({{"x", x}, {"y", at::full({20}, 2, at::kLong)}}, "has a score for, not 2");
  small.c.loss = TensorLoss::bce;
  expect({{"x", x}, {"y", at::full({20, 2}, 2)}}, "needs numbers from 0 to 1");
  small.c.loss = TensorLoss::none;
  EXPECT_THAT(small.refusal({{"x", x}}), HasSubstr("--loss none: expected a loss, one number"));
  small.c.loss = TensorLoss::mse;
  small.c.precision = Precision::fp64;
  EXPECT_THAT(small.refusal({{"x", x}, {"y", y}}), HasSubstr("\"scale\" is Float, and --precision fp64 trains Double"));
}

}  // namespace
}  // namespace adjoin::train
