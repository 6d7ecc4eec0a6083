#include "adjoin/train/prepared_run.hpp"

#include <cmath>
#include <set>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/store/output_folder.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/task/same_bits.hpp"
#include "adjoin/task/traced_steps.hpp"
#include "adjoin/train/progress.hpp"
#include "adjoin/train/resume.hpp"
#include "adjoin/train/schedule.hpp"
#include "adjoin/train/stages.hpp"
#include "adjoin/train/tasks.hpp"
#include "adjoin/train/trainer.hpp"
#include "adjoin/train/training_order.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {
namespace {

void say_plan(const Configuration& c, const Task& task) {
  double parameters = 0;
  for (const nn::Parameter& parameter : parameters_of(described_model(task)))
    parameters += static_cast<double>(parameter.tensor.numel());
  require(parameters < 1e15, "the model would have more than 1,000,000,000,000,000 parameters");
  const HeldOut samples = hold_out(c, task);
  const int64_t steps = total_steps(c, std::ssize(samples.train));
  const std::string about = task.description();
  say("model of " + grouped(static_cast<int64_t>(parameters)) + " parameters" + (about.empty() ? "" : ": " + about));
  if (c.validation > 0)
    say(counted(std::ssize(samples.train), "sample") + " to train on, " + grouped(std::ssize(samples.validation)) +
        " held out for validation");
  say(counted(steps, "step") + (c.steps > 0 ? "" : ": " + counted(c.epochs, "epoch")) + " in batches of " +
      grouped(c.batch));
  if (c.max_time > 0) say("ends after " + clock_time(c.max_time) + " at the latest");
  say(counted(grid_sizes(c).ranks(), "rank") + ": " + layout_text(c) +
      (c.backend == Workers::mpi || (c.backend == Workers::automatic && started_by_mpi()) ? ", MPI processes"
                                                                                          : ", threads"));
  if (const std::string text = same_bits_text(c); !text.empty()) say(text);
  if (c.experts.count > 1)
    say(counted(c.layers / c.experts.every, "block") + " with " + grouped(c.experts.count) + " experts, " +
        grouped(expert_options(c).top_k) + " for each token");
  for (const std::string& remark : remarks(c)) say(remark);
  if (!c.resume.empty()) say("goes on from " + c.resume);
}

}  // namespace

Configuration completed(Configuration c, const TaskMaker& make) {
  if (make && c.task.empty()) c.task = kOwnTask;
  if (c.has_program()) c.task = kProgramTask;
  c.resume = run_to_resume(c.resume, c.out);
  require(c.step == 0 || !c.resume.empty(),
          "--step chooses a checkpoint of the run in --resume, so --resume is needed");
  if (c.out.empty()) c.out = c.resume;
  require(c.resume.empty() || c.masks == Masks::adjoin,
          "--masks torch: a resumed run would draw from the beginning again; --masks adjoin resumes it");
  c = with_all_ranks(std::move(c));
  validate(c);
  check_schedule(c);
  return c;
}

std::unique_ptr<Task> prepared(Configuration& configuration, const TaskMaker& make, bool writes) {
  if (writes) require(!configuration.out.empty(), "--out is needed");
  if (writes && mpi_job_rank() == 0) {  // other ranks would see the files with which it tries to write
    OutputFolder::check(configuration.out);
    check_earlier_run(configuration);
    OutputFolder::try_out(configuration.out);
  }
  std::unique_ptr<Task> task = make_task(configuration, make);
  check_traced_steps(configuration, 0, total_steps(configuration, std::ssize(hold_out(configuration, *task).train)));
  if (!configuration.resume.empty()) check_weights_to_resume({configuration.resume, configuration.step}, *task);
  const Stages stages = stages_of(configuration, segments_of(configuration, *task));
  say_plan(configuration, *task);
  if (stages.count() > 1 || configuration.pipeline != Configuration().pipeline)
    say("pipeline " + configuration.pipeline + ": " + counted(stages.count(), "stage") + ", " +
        counted(configuration.microbatches, "micro-batch", "micro-batches") + ", ranks idle about " +
        fixed(100 * expected_timeline(stages).bubble, 0) + " % of the time");
  const int64_t samples = (configuration.batch + configuration.dp - 1) / configuration.dp;
  if (stages.count() > 1 && samples < configuration.microbatches)
    say("micro-batches without samples: at least " + grouped(configuration.microbatches - samples) +
        " of each rank's " + grouped(configuration.microbatches) + ", during which it is idle too");
  return task;
}

std::optional<SavedModel> beginning_of(const Configuration& configuration, const Task& task, const TaskMaker& make) {
  if (configuration.from.empty() || !configuration.resume.empty()) return std::nullopt;
  SavedModel beginning = open_model({configuration.from, 0}, make, /*is_beginning=*/true);
  say("begins with the weights of " + configuration.from);
  std::set<std::string> drawn;
  for (const std::string& name : drawn_anew(beginning, task, parameters_of(described_model(task))))
    drawn.insert(name.substr(0, name.rfind('.')));
  if (!drawn.empty()) say("draws by the seed what is missing or for other classes: " + joined(drawn));
  if (const auto left_out = beginning.folder->left_out(); !left_out.empty())
    say("leaves out the weights of other heads: " + joined(left_out));
  return beginning;
}

}  // namespace adjoin::train
