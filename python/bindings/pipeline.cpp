#include "adjoin/parallel/pipeline.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "python/bindings/bindings.hpp"

namespace adjoin::python {
namespace {

using namespace py::literals;
using at::Tensor;
using pipeline::Action;
using pipeline::Schedule;

pipeline::Kind pipeline_kind_named(const std::string& letter) {
  const size_t kind = pipeline::kLetters.find(letter);
  require(letter.size() == 1 && kind != std::string::npos,
          [&] { return "Action: expected a kind: F, B, I or W, got '" + letter + "'"; });
  return static_cast<pipeline::Kind>(kind);
}

void bind_schedules(py::module_& m) {
  py::class_<Action>(m, "Action",
                     "What a rank does to one micro-batch in one of its stages.\nkind: F forward, B backward, I the "
                     "gradient of the stage's input, W the gradients of its weights")
      .def(py::init([](int stage, const std::string& kind, int micro_batch) {
             return Action{stage, pipeline_kind_named(kind), micro_batch};
           }),
           "stage"_a, "kind"_a, "micro_batch"_a)
      .def_readonly("stage", &Action::stage)
      .def_property_readonly("kind", [](const Action& a) { return std::string(1, pipeline::letter_of(a.kind)); })
      .def_readonly("micro_batch", &Action::micro_batch)
      .def(
          "__eq__", [](const Action& a, const Action& b) { return a == b; }, py::is_operator())
      .def("__repr__", [](const Action& a) { return pipeline::text_of(a); });
  py::class_<Schedule>(m, "Schedule",
                       "Which rank has which stages, and which actions it runs in which order.\nrank_of: of each "
                       "stage; actions: of each rank, in its order\nRaises InvalidArgument for a schedule that cannot "
                       "run.")
      .def(py::init(
               [](int stages, int micro_batches, std::vector<int> rank_of, std::vector<std::vector<Action>> actions) {
                 Schedule schedule{stages, micro_batches, std::move(rank_of), std::move(actions)};
                 pipeline::check(schedule);
                 return schedule;
               }),
           "stages"_a, "micro_batches"_a, "rank_of"_a, "actions"_a)
      .def_readonly("stages", &Schedule::stages)
      .def_readonly("micro_batches", &Schedule::micro_batches)
      .def_readonly("rank_of", &Schedule::rank_of)
      .def_readonly("actions", &Schedule::actions)
      .def_property_readonly("ranks", &Schedule::ranks)
      .def(
          "__eq__", [](const Schedule& a, const Schedule& b) { return a == b; }, py::is_operator())
      .def("__repr__", [](const Schedule& s) {
        return "Schedule(" + std::to_string(s.stages) + " stages on " + std::to_string(s.ranks()) + " ranks, " +
               std::to_string(s.micro_batches) + " micro-batches)";
      });
  m.def("schedule_names", [] {
    const auto names = pipeline::schedule_names();
    return std::vector<std::string>(names.begin(), names.end());
  });
  m.def(
      "make_schedule",
      [](const std::string& name, int ranks, int micro_batches, int chunks) {
        return pipeline::make_schedule(name, ranks, micro_batches, chunks);
      },
      "name"_a, "ranks"_a, "micro_batches"_a, "chunks"_a = 1,
      "A schedule by its name: gpipe, 1f1b, interleaved or zb-h1.\nchunks: the number of stages of each rank; stage s "
      "is "
      "on rank s modulo ranks\nRaises InvalidArgument for numbers that do not fit.");
  m.def("forward_only", &pipeline::forward_only, "stages"_a, "micro_batches"_a,
        "Only forward passes, on the stages and ranks of another schedule: for an evaluation.");
  m.def(
      "read_schedule",
      [](const std::string& csv, std::optional<int> ranks, std::optional<int> micro_batches) {
        return pipeline::read_schedule(csv, ranks, micro_batches);
      },
      "csv"_a, "ranks"_a = py::none(), "micro_batches"_a = py::none(),
      "The schedule in a table: one line per rank, one cell per action, such as 0F3.\nRaises InvalidArgument for a "
      "schedule that cannot run.");
  m.def("to_csv", &pipeline::to_csv, "schedule"_a, "The table that read_schedule reads.");
}

using Forward = std::function<Tensor(int stage, int micro_batch, const std::optional<Tensor>& input)>;
using LossOf = std::function<std::optional<Tensor>(int micro_batch, const Tensor& output)>;
using ShapeOf = std::function<std::vector<int64_t>(int stage, int micro_batch)>;
using Observe = std::function<void(const Action& action, double seconds)>;

void run(const Schedule& schedule, const Communicator& ranks, const Forward& forward, const LossOf& loss,
         const ShapeOf& output_shape, at::ScalarType dtype, double loss_scale, const Observe& observer) {
  parallel::PipelineWork work{
      .forward =
          [&](int stage, int micro_batch, const Tensor& input) {
            return forward(stage, micro_batch, input.defined() ? std::optional(input) : std::nullopt);
          },
      .loss = [&](int micro_batch,
                  const Tensor& output) { return loss ? loss(micro_batch, output).value_or(Tensor()) : Tensor(); },
      .output_shape = output_shape,
      .output = dtype,
      .loss_scale = loss_scale,
      .observer = observer};
  parallel::run_pipeline(schedule, ranks, work, Where());
}

}  // namespace

void bind_pipeline(py::module_& m) {
  py::module_ pipeline = m.def_submodule("pipeline");
  bind_schedules(pipeline);
  m.def(
      "run_pipeline", &run, "schedule"_a, "ranks"_a, "forward"_a, "loss"_a, "output_shape"_a, "dtype"_a = at::kFloat,
      "loss_scale"_a = 1.0, "observer"_a = py::none(), MayBlock(),
      "Runs this rank's actions of a schedule; called by all ranks of the pipeline. Gradients are added up in .grad.\n"
      "forward(stage, micro_batch, input): the stage's output; input is None for the first stage\n"
      "loss(micro_batch, output): the loss of the last stage's output, or None\n"
      "output_shape(stage, micro_batch): of a stage's output, for the ranks that receive it; dtype: its type\n"
      "loss_scale: the gradient with which backward of each loss begins\n"
      "observer(action, seconds): called after each action, with the time that the rank was busy with it\n"
      "Raises InvalidArgument for a schedule of another number of ranks.");
}

}  // namespace adjoin::python
