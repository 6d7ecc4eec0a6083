#include "adjoin/train/saved_model.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/hugging_face/pretrained.hpp"
#include "adjoin/store/checkpoint.hpp"
#include "adjoin/store/on_root.hpp"
#include "adjoin/store/output_file.hpp"
#include "adjoin/task/configuration_file.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/train/tasks.hpp"

namespace adjoin::train {
void write_model_files(const std::filesystem::path& folder, Configuration configuration, const Task& task,
                       const Stages& stages) {
  if (pipeline::names_a_file(configuration.pipeline)) {
    write_atomically(folder / kKeptSchedule, pipeline::to_csv(stages.schedule));
    configuration.pipeline = kKeptSchedule;
  }
  for (const TaskFile& file : task.files()) write_atomically(folder / file.name, file.content);
  write_atomically(folder / "config.json", to_json(with_absolute_paths(configuration)).dump(2) + "\n");
}

void save_model(const std::filesystem::path& folder, const Configuration& configuration, const Task& task,
                const Trainer& trainer) {
  on_root(trainer.grid().world(), "writing " + folder.string(),
          [&] { write_model_files(folder, configuration, task, trainer.stages()); });
  // Last: if this file exists, the others do too.
  save_state(folder / kWeightsFile, trainer.parameters(), trainer.grid());
}

SavedModel open_model(const CheckpointChoice& choice, const TaskMaker& make, bool is_beginning) {
  SavedModel saved{.folder = model_folder(choice)};
  saved.folder->read([&](const std::filesystem::path& place) {
    saved.configuration = saved.folder->configuration(place);
    if (!make) check_known(saved.configuration, choice.run.string());
    saved.task = make ? make(saved.configuration) : task_kind(saved.configuration).open(saved.configuration, place);
    saved.folder->find_weights(place, parameters_of(described_model(*saved.task)));
  });
  if (!is_beginning) saved.folder->check_whole(saved.configuration);
  return saved;
}

std::vector<std::string> drawn_anew(const SavedModel& beginning, const Task& task,
                                    const std::vector<nn::Parameter>& parameters) {
  std::vector<std::string> drawn = beginning.folder->lacking();
  const std::vector<std::string> others = task.other_parameters(*beginning.task);
  for (const nn::Parameter& parameter : parameters)
    if (std::ranges::any_of(others, [&](const std::string& begin) { return parameter.name.starts_with(begin); }) &&
        std::ranges::find(drawn, parameter.name) == drawn.end())
      drawn.push_back(parameter.name);
  return drawn;
}

Configuration configured(const SavedModel& saved, const ModelUse& use) {
  Configuration configuration = saved.configuration;
  static_cast<RankOptions&>(configuration) = use.ranks;
  configuration = with_all_ranks(std::move(configuration));
  configuration.pipeline = Configuration().pipeline;  // it has as many stages as the run had ranks
  configuration.chunks = 1;
  configuration.stages.clear();
  validate(configuration);
  return configuration;
}

void begin_with(const SavedModel& beginning, const Task& task, const std::vector<nn::Parameter>& parameters,
                int64_t seed) {
  const std::vector<std::string> names = drawn_anew(beginning, task, parameters);
  std::vector<nn::Parameter> drawn, read;
  for (const nn::Parameter& parameter : parameters)
    (std::ranges::find(names, parameter.name) == names.end() ? read : drawn).push_back(parameter);
  nn::initialize(drawn, static_cast<uint64_t>(seed));
  beginning.folder->read_weights(parameters.front().grid.world(), read);
}

Trainer load_trainer(const SavedModel& saved, const Configuration& configuration, const Communicator& world) {
  Trainer trainer(configuration, *saved.task, world);
  saved.folder->read_weights(world, trainer.parameters());
  return trainer;
}

}  // namespace adjoin::train
