#include <optional>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/cli/options.hpp"
#include "adjoin/cli/plan_options.hpp"
#include "adjoin/plan/dry_run.hpp"
#include "adjoin/plan/job.hpp"
#include "adjoin/plan/layouts.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/train/commands.hpp"
#include "adjoin/train/tasks.hpp"

namespace adjoin::cli {
namespace {

struct TrainCommand {
  std::shared_ptr<GivenConfiguration> given;
  PlanOptions plan;
  bool is_dry = false, json = false;
};

/// The same configuration on the layout that a plan chooses, which is printed unless `is_silent`.
train::Configuration planned(const train::Configuration& configuration, const plan::PlanRequest& request,
                             bool is_silent) {
  if (!is_silent) say_that_it_plans(request);
  const plan::Plan plan = [&] {
    const train::Silence silence;  // the training will print it
    return plan::layouts(configuration, train::task_kind(configuration).make, request);
  }();
  const plan::PlannedLayout& first = best(plan);
  if (!is_silent)
    train::say("layout: " + plan::options_of(first.configuration) + " (" + text_of_seconds(first.time.seconds) +
               " a step predicted)");
  return agreed_best(plan);
}

void run_train(const TrainCommand& command) {
  std::optional<plan::PlanRequest> request;
  if (command.plan.ranks) request = command.plan.request(*command.given);
  require(command.is_dry || !command.json, "--json prints the plan of --dry-run, which is not given");
  require(request || !command.plan.memory, "--memory limits the layouts of a plan, which needs --ranks");
  train::Configuration configuration = command.given->resolve();
  require_given(configuration.data, "--data");
  if (!command.is_dry) require_given(configuration.out, "--out");
  std::optional<plan::JobSession> session;
  if (request) {
    session.emplace();
    configuration = planned(configuration, *request, /*is_silent=*/command.json);
  }
  command.is_dry ? plan::dry_run(configuration, {}, command.json) : train::train(configuration);
}

}  // namespace

void add_train(Program& program) {
  auto train = std::make_shared<TrainCommand>();
  CLI::App* command =
      add_command(program, program.app, "train",
                  "Train a classifier of texts, a decoder that writes them, or a network that Python exported",
                  [train] { run_train(*train); });
  train->given = add_configuration_options(*command, {"Data", "Model", "Training", "Layout", "Output"});
  add_plan_options(program, *command, train->plan, "Layout");
  command
      ->add_flag("--dry-run", train->is_dry,
                 "Train nothing and write only the cache of tokens: print the plan, and each rank's parameters, "
                 "memory and collective operations of a step, measured part by part")
      ->group("Output");
  add_options(program, *command,
              {flag("--json", train->json,
                    "With --dry-run: print one JSON object: layout, largest_micro_batch in tokens, with experts "
                    "full_experts_bytes, and ranks, of each rank, parameters, weight_bytes, gradient_bytes, "
                    "moment_bytes, activation_bytes, peak_memory_bytes, checkpoint_bytes and calls")},
              "Output");
  command->footer(preset_table());
}

}  // namespace adjoin::cli
