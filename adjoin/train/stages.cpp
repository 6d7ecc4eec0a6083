#include "adjoin/train/stages.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <numeric>
#include <ostream>
#include <set>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/lab/silent_backend.hpp"
#include "adjoin/pipeline/balanced_stages.hpp"
#include "adjoin/store/read_text.hpp"

namespace adjoin::train {
namespace {

constexpr int kMostSegments = 1'000'000;

/// The two halves of each micro-batch go forward, and then back.
pipeline::Schedule schedule_of_halves(int parts) {
  pipeline::Schedule schedule{.stages = 1, .micro_batches = parts, .rank_of = {0}, .actions = {{}}};
  for (int first = 0; first < parts; first += 2)
    for (const pipeline::Kind kind : {pipeline::Kind::forward, pipeline::Kind::backward})
      for (const int half : {first, first + 1}) schedule.actions[0].push_back({0, kind, half});
  return schedule;
}

/// The schedule that a configuration names; if it is a file, it is read.
pipeline::Schedule schedule_of(const Configuration& c) {
  if (c.halves) return schedule_of_halves(static_cast<int>(parts_of_step(c)));
  const auto ranks = static_cast<int>(c.pp), micro_batches = static_cast<int>(c.microbatches);
  if (!pipeline::names_a_file(c.pipeline))
    return pipeline::make_schedule(c.pipeline, ranks, micro_batches, static_cast<int>(c.chunks));
  const std::string table = read_text(c.pipeline);
  try {
    return pipeline::read_schedule(table, ranks, micro_batches);
  } catch (...) {
    rethrow_led_by("--pipeline " + c.pipeline + ": ", std::current_exception());
  }
}

/// The numbers of --stages.
std::vector<int> sizes_given(const Configuration& c, int stages) {
  std::vector<int> sizes;
  for (const std::string_view part : items_of(c.stages)) {
    require(!part.empty(), [&] { return "--stages " + c.stages + ": expected a number on each side of a comma"; });
    const auto size = number_from<int64_t>(part, "--stages");
    require(size >= 1 && size <= kMostSegments, [&] {
      return "--stages " + c.stages + ": a stage has from 1 to " + std::to_string(kMostSegments) + " segments, got " +
             std::to_string(size);
    });
    sizes.push_back(static_cast<int>(size));
  }
  require(std::ssize(sizes) == stages, [&] {
    return "--stages " + c.stages + ": expected " + counted(stages, "number") + ", one for each stage, got " +
           std::to_string(sizes.size());
  });
  return sizes;
}

/// How many segments each stage has.
std::vector<int> sizes_of(const Configuration& c, int stages, std::span<const models::Segment> segments) {
  const auto count = static_cast<int>(segments.size());
  require(stages <= count, [&] {
    const std::string ranks = "--pp " + std::to_string(c.pp);
    return (pipeline::names_a_file(c.pipeline) ? "--pipeline " + c.pipeline + " has "
            : c.chunks > 1                     ? ranks + " with --chunks " + std::to_string(c.chunks) + " makes "
                                               : ranks + " makes ") +
           std::to_string(stages) + " stages, but the model has only " + std::to_string(count) + " segments";
  });
  if (c.stages.empty()) {
    std::vector<double> costs;
    for (const models::Segment& segment : segments) costs.push_back(segment.cost);
    if (std::ranges::all_of(costs, [](double cost) { return cost == 0; })) std::ranges::fill(costs, 1.0);
    return pipeline::balanced_stages(costs, stages);
  }
  std::vector<int> sizes = sizes_given(c, stages);
  const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  require(sum == count, [&] {
    return "--stages " + c.stages + ": the sum is " + std::to_string(sum) + ", expected " + std::to_string(count) +
           ", the number of the model's segments";
  });
  return sizes;
}

/// For each stage; equal costs if no segment gives its cost.
std::vector<double> costs_of(const Stages& stages) {
  std::vector<double> costs(stages.ends.size());
  for (size_t stage = 0; stage < costs.size(); ++stage)
    for (const models::Segment& segment : stages.segments_of(static_cast<int>(stage))) costs[stage] += segment.cost;
  const bool are_said = std::ranges::any_of(costs, [](double cost) { return cost > 0; });
  return are_said ? costs : std::vector<double>(costs.size(), 1.0);
}

/// The grid of a stage of other ranks, as seen from one of them.
Grid stage_of_others(const Grid& grid, int pp) {
  const GridShape shape = grid.shape().at("pp", pp);
  return {Communicator(std::make_shared<lab::SilentBackend>(shape.rank_of(0), grid.world().size())), shape};
}

/// A part of the model, and the coordinates along pp of the stages that name it.
struct HeldPart {
  const models::ModuleRecipe* part;
  std::vector<int> held_at;  // ascending

  bool is_at(int pp) const { return std::ranges::find(held_at, pp) != held_at.end(); }
};

/// All parts, in the order of the segments, which is the same on all ranks.
std::vector<HeldPart> parts_of_stages(const Stages& stages) {
  std::vector<HeldPart> parts;
  std::map<std::string, std::set<int>> held_at;
  for (int stage = 0; stage < stages.count(); ++stage)
    for (const models::Segment& segment : stages.segments_of(stage))
      for (const models::ModuleRecipe& part : segment.parts) {
        if (!held_at.contains(part.name)) parts.push_back({&part, {}});
        held_at[part.name].insert(stages.pp_of(stage));
      }
  for (HeldPart& part : parts) {
    const std::set<int>& holders = held_at.at(part.part->name);
    part.held_at.assign(holders.begin(), holders.end());
  }
  return parts;
}

/// The parameters of a part of this rank's model; without a model, of a part that other ranks have.
std::vector<nn::Parameter> pieces_of(const HeldPart& held, const models::Model* model, const Grid& grid,
                                     const at::TensorOptions& tensor, models::Sharding sharding) {
  const Grid here = grid.at("pp", grid.coordinate("pp"));
  const Grid stage = model ? here : stage_of_others(grid, held.held_at.front());
  const std::string& name = held.part->name;
  const bool has_shards = model && (*model)->shards().contains(name);
  const std::shared_ptr<torch::nn::Module> elsewhere =
      model ? nullptr : held.part->make(stage, tensor.device(at::kMeta));
  std::vector<nn::Parameter> parameters = model ? (*model)->pieces(name) : nn::parameters_of(*elsewhere, stage, {"tp"});
  if (const auto kept = kept_as(*held.part, sharding); kept && !has_shards)
    for (nn::Parameter& parameter : parameters) {
      parameter.grid = stage;  // a model for plans may have been made as another rank
      parameter = parallel::kept_of(parameter, *kept);
    }
  for (nn::Parameter& parameter : parameters) {
    parameter.name = held.part->beginning() + "." + parameter.name;
    parameter.grid = here;
    if (!model)
      parameter.tensor =
          at::empty({0}, parameter.tensor.options().device(at::kCPU)).requires_grad_(parameter.tensor.requires_grad());
    if (held.held_at.size() > 1)
      parameter.layout = parameter.layout.on(grid.shape().among("pp", held.held_at), Kind::copied);
  }
  return parameters;
}

void append(std::vector<nn::Parameter>& all, std::vector<nn::Parameter> more) {
  std::move(more.begin(), more.end(), std::back_inserter(all));
}

}  // namespace

void check_schedule(const Configuration& c) {
  const std::vector<std::string_view> known = pipeline::schedule_names();
  require(pipeline::names_a_file(c.pipeline) || std::ranges::find(known, c.pipeline) != known.end(),
          [&] { return "--pipeline is \"" + c.pipeline + "\", expected one of " + joined(known) + ", or a file.csv"; });
  require(c.chunks == 1 || pipeline::has_chunks(c.pipeline),
          [&] { return "--chunks is for --pipeline interleaved, and --pipeline is " + c.pipeline; });
  const int stages = schedule_of(c).stages;
  if (!c.stages.empty()) sizes_given(c, stages);
}

int stage_count(const Configuration& configuration) {
  check_schedule(configuration);
  return schedule_of(configuration).stages;
}

std::vector<int> Stages::stages_at(int pp) const {
  std::vector<int> here;
  for (int stage = 0; stage < count(); ++stage)
    if (pp_of(stage) == pp) here.push_back(stage);
  return here;
}

std::span<const models::Segment> Stages::segments_of(int stage) const {
  return std::span(segments).subspan(first_of(stage), ends[static_cast<size_t>(stage)] - first_of(stage));
}

bool Stages::backward_follows(int stage, int micro_batch) const {
  const auto& actions = schedule.actions[static_cast<size_t>(pp_of(stage))];
  const auto is_of = [&](const pipeline::Action& action) {
    return action.stage == stage && action.micro_batch == micro_batch;
  };
  const auto forward = std::ranges::find_if(actions, is_of);
  return forward != actions.end() && forward + 1 != actions.end() && is_of(*(forward + 1));
}

size_t Stages::place_of(int stage) const {
  size_t place = 0;
  for (int other = 0; other < stage; ++other)
    if (pp_of(other) == pp_of(stage)) place += segments_of(other).size();
  return place;
}

Stages stages_of(const Configuration& configuration, std::vector<models::Segment> segments) {
  Stages stages{schedule_of(configuration), std::move(segments)};
  for (const int size : sizes_of(configuration, stages.count(), stages.segments))
    stages.ends.push_back(stages.first_of(static_cast<int>(stages.ends.size())) + static_cast<size_t>(size));
  for (int pp = 0; pp < configuration.pp; ++pp)
    require(!stages.stages_at(pp).empty(), [&] {
      return "--pipeline " + configuration.pipeline + ": gives rank " + std::to_string(pp) + " no stage";
    });
  for (int stage = 0; stage + 1 < stages.count(); ++stage) {
    const models::Segment& last = stages.segments_of(stage).back();
    require(stages.pp_of(stage) == stages.pp_of(stage + 1) || last.output_shape || last.with_input, [&] {
      return "--pp " + std::to_string(configuration.pp) + ": the model's segment " + last.name +
             " does not say the shape of its output, which the next stage must know";
    });
  }
  return stages;
}

pipeline::Timeline expected_timeline(const Stages& stages) {
  pipeline::Costs costs;
  for (const double cost : costs_of(stages)) costs.stages.push_back({cost, cost, cost});
  return pipeline::simulate(stages.schedule, costs);
}

void print_stages(std::ostream& out, const Stages& stages) {
  const std::vector<double> costs = costs_of(stages);
  const double all = std::accumulate(costs.begin(), costs.end(), 0.0);
  std::vector<std::vector<std::string>> table{{"  stage", "rank along pp", "segments", "share of the cost"}};
  for (int stage = 0; stage < stages.count(); ++stage) {
    const std::span segments = stages.segments_of(stage);
    const std::string &first = segments.front().name, &last = segments.back().name;
    table.push_back({std::to_string(stage), std::to_string(stages.pp_of(stage)),
                     segments.size() == 1 ? first : first + " to " + last,
                     fixed(100 * costs[static_cast<size_t>(stage)] / all, 1) + " %"});
  }
  out << '\n' << table_text(table, "rrlr");
}

models::Model model_here(const Stages& stages, const Grid& grid, const at::TensorOptions& tensor,
                         models::Sharding sharding, std::optional<uint64_t> seed) {
  const int pp = grid.coordinate("pp");
  std::vector<models::Segment> here;
  for (const int stage : stages.stages_at(pp)) std::ranges::copy(stages.segments_of(stage), std::back_inserter(here));
  return models::Model(std::move(here), grid.at("pp", pp), tensor, sharding, seed);
}

std::vector<nn::Parameter> parameters_here(const Stages& stages, const models::Model& model, const Grid& grid,
                                           models::Sharding sharding) {
  std::vector<nn::Parameter> all;
  for (const HeldPart& part : parts_of_stages(stages))
    if (part.is_at(grid.coordinate("pp"))) append(all, pieces_of(part, &model, grid, {}, sharding));
  return all;
}

std::vector<nn::Parameter> parameters_of(const Stages& stages, const models::Model& model, const Grid& grid,
                                         const at::TensorOptions& tensor, models::Sharding sharding) {
  std::vector<nn::Parameter> all;
  for (const HeldPart& part : parts_of_stages(stages))
    append(all, pieces_of(part, part.is_at(grid.coordinate("pp")) ? &model : nullptr, grid, tensor, sharding));
  return all;
}

}  // namespace adjoin::train
