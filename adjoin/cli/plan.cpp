#include "adjoin/base/error.hpp"
#include "adjoin/cli/numbers.hpp"
#include "adjoin/cli/output.hpp"
#include "adjoin/cli/plan_options.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/lab/measure/sizes.hpp"
#include "adjoin/plan/job.hpp"
#include "adjoin/plan/layouts.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/train/tasks.hpp"

namespace adjoin::cli {
namespace {

bool is_given(const GivenConfiguration& given, const std::string& field) {
  const CLI::Option* option = given.command->get_option_no_throw(train::option_of(field));
  return option != nullptr && option->count() > 0;
}

plan::JobHosts placement_of(const PlanOptions& options) {
  plan::JobHosts placement{.ranks = *options.ranks};
  if (started_by_mpi()) {
    require(*options.ranks == mpi_job_size(), [&] {
      return "--ranks " + std::to_string(*options.ranks) + ": the MPI job has " + std::to_string(mpi_job_size());
    });
    require(!options.hosts, "--hosts is for a plan without mpirun or srun, whose job has its own hosts");
    placement.hosts = plan::hosts_of_job();
    return placement;
  }
  placement.hosts = options.hosts.value_or(1);
  check_range("--hosts", placement.hosts, 1, *options.ranks);
  require(placement.ranks % placement.hosts == 0, [&] {
    return "--hosts " + std::to_string(placement.hosts) + " does not divide --ranks " +
           std::to_string(placement.ranks) + ": each host has the same number of ranks";
  });
  const bool has_network = options.alpha || options.beta;
  require(placement.hosts == 1 || (options.alpha && options.beta),
          "--hosts needs --alpha and --beta, the seconds of a message and of each of its bytes between hosts");
  require(placement.hosts > 1 || !has_network,
          "--alpha and --beta describe a network between hosts, which needs --hosts of 2 or more");
  if (!has_network) return placement;
  for (const auto& [option, seconds] : {std::pair{"--alpha", *options.alpha}, {"--beta", *options.beta}})
    require(seconds >= 0 && seconds <= 1e6,
            [&] { return std::string(option) + " is " + train::shown(seconds) + ", expected 0 to 1000000 seconds"; });
  placement.network = algorithm::Network{*options.alpha, *options.beta};
  return placement;
}

}  // namespace

plan::PlanRequest PlanOptions::request(const GivenConfiguration& given) const {
  require(ranks.has_value(), "--ranks is needed");
  check_range("--ranks", *ranks, 1, kMostThreads);
  plan::PlanRequest request{.placement = {}, .measures_anew = measures};
  if (memory) {
    request.memory = measure::bytes_of(*memory, "--memory");
    require(*request.memory > 0, "--memory is 0, expected bytes as in 512M or 2G");
  }
  for (const std::string& field : plan::fields_of_grid())
    require(!is_given(given, field), [&] {
      return train::option_of(field) + " is given with --ranks, but then the plan decides it: give only one of them";
    });
  for (const std::string& field : plan::fields_of_methods())
    if (is_given(given, field)) request.fixed.insert(field);
  request.placement = placement_of(*this);
  return request;
}

void say_that_it_plans(const plan::PlanRequest& request) {
  train::say("planning; measuring what is unknown of this machine, for at most about " +
             text_of_seconds(request.measuring_seconds));
}

void add_plan_options(Program& program, CLI::App& command, PlanOptions& options, const std::string& group) {
  add_options(
      program, command,
      {number("--ranks", options.ranks,
              "Ranks of the job, whose layout a plan then decides: --dp, --ep, --pp, --cp, --tp and --sp, and those of "
              "--cp-method, --zero, --pipeline, --chunks, --microbatches, --halves and --recompute that are not given"),
       option("--memory", "BYTES", "Bytes of tensors that each rank may have, as in 512M or 2G [any]",
              [&options](const std::string& value) { options.memory = value; })},
      group);
}

namespace {

struct PlanCommand {
  PlanOptions plan;
  std::shared_ptr<GivenConfiguration> given;
  int64_t check = -1, lines = 20;
  bool json = false;
};

void run_plan(PlanCommand& command) {
  plan::PlanRequest request = command.plan.request(*command.given);
  train::Configuration configuration = command.given->resolve();
  require_given(configuration.data, "--data");
  if (!is_given(*command.given, "stages")) configuration.stages.clear();  // those of a resumed run belong to its layout
  require(command.check < 0 || !request.placement.network,
          "--check trains only on this host, and --hosts names several");
  const train::TaskMaker make = train::task_kind(configuration).make;
  const plan::JobSession session;
  std::optional<train::Silence> silence;
  if (command.json) silence.emplace();
  say_that_it_plans(request);
  plan::Plan plan = plan::layouts(configuration, make, request);
  Report report{command.json};
  plan::print(report.text, plan, static_cast<size_t>(command.lines));
  report.print_text();
  std::vector<plan::MeasuredLayout> measured;
  if (command.check >= 0 && !plan.fitting.empty())
    measured = plan::check(plan, make, command.check == 0 ? plan.fitting.size() : static_cast<size_t>(command.check));
  if (!request.measures_anew && is_refuted(plan, measured)) {
    train::say("\nthe predictions are wrong: measuring this machine again");
    request.measures_anew = true;
    plan = plan::layouts(configuration, make, request);
    plan::print(report.text, plan, static_cast<size_t>(command.lines));
  }
  report.json = plan::to_json(plan, measured);
  if (!measured.empty()) plan::print_check(report.text, plan, measured);
  report.print();
  best(plan);  // throws, with the needed memory, if none fits
}

}  // namespace

void add_plan(Program& program) {
  auto options = std::make_shared<PlanCommand>();
  CLI::App* command =
      add_command(program, program.app, "plan",
                  "Show which layouts a training can use on a number of ranks, and how long a step takes on each",
                  [options] { run_plan(*options); });
  add_plan_options(program, *command, options->plan, "Plan");
  add_options(
      program, *command,
      {number("--hosts", options->plan.hosts,
              "Hosts like this machine that share the ranks, on a network that --alpha and --beta describe [1]"),
       number("--alpha", options->plan.alpha, "Seconds that a message between two hosts takes, as 5e-6"),
       number("--beta", options->plan.beta,
              "Seconds that each of its bytes adds, as 8e-11 for 100 Gbit/s, which all ranks of a host share"),
       flag("--measure", options->plan.measures,
            "Measure this machine again; without it, earlier measurements in the cache's folder are used")},
      "Plan");
  command
      ->add_option_function<std::string>(
          "--check",
          [options](const std::string& text) {
            options->check = text.empty() ? 0 : number_of(text, "--check", 1, int64_t{1} << 30);
          },
          "Train 10 steps of a typical batch on each layout that fits, or on the first COUNT, in turns, and print how "
          "long they took")
      ->expected(0, 1)
      ->default_str("")
      ->option_text("[COUNT]")
      ->group("Plan");
  add_options(
      program, *command,
      {number("--lines", options->lines, "Layouts to print of each list; 0: all", 0),
       json_row(options->json,
                "object: layouts and too_large, of each options and their values, step_seconds, "
                "samples_per_second, computing, communicating, bubble, memory_bytes, checkpoint_bytes, and with "
                "--check measured_step_seconds and measured_memory_bytes; choices")},
      "Plan");
  options->given =
      add_configuration_options(*command, {"Data", "Model", "Training", "Layout", "save", "resume", "step"});
  command->footer(preset_table());
}

}  // namespace adjoin::cli
