#include "adjoin/train/saved_model.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/hugging_face/pretrained.hpp"
#include "adjoin/store/checkpoint.hpp"
#include "adjoin/store/checkpoint_folders.hpp"
#include "adjoin/store/on_root.hpp"
#include "adjoin/store/output_file.hpp"
#include "adjoin/store/read_text.hpp"
#include "adjoin/store/together.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/texts/reviews_input.hpp"
#include "adjoin/train/tasks.hpp"

namespace adjoin::train {
namespace {

/// Checks that a file holds the weights of a task's model. Allocates nothing of the model's size.
void check_described(const std::filesystem::path& path, const Task& task) {
  check_state(path, parameters_of(described_model(task)));
}

std::map<std::string, std::vector<int64_t>> shapes_of(const Task& task) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const nn::Parameter& parameter : parameters_of(described_model(task)))
    shapes.emplace(parameter.name, parameter.layout.shape());
  return shapes;
}

SavedModel open_pretrained(const std::filesystem::path& folder, const TaskMaker& make) {
  SavedModel saved{read_pretrained(folder), nullptr, {folder, 0}, true};
  constexpr int64_t kLongest = 2048;  // for texts in an evaluation
  saved.configuration.sequence = std::clamp<int64_t>(saved.configuration.context, 2, kLongest);
  saved.task = make ? make(saved.configuration) : task_kind(saved.configuration).open(saved.configuration, folder);
  saved.weights = std::make_shared<const FamilyWeights>(find_pretrained_weights(folder, shapes_of(*saved.task)));
  return saved;
}

/// Throws: InvalidArgument for a folder that holds neither a model of transformers nor one of a run
void require_model(const std::filesystem::path& folder) {
  require(std::filesystem::is_directory(folder), [&] { return folder.string() + ": there is no such folder"; });
  if (has_checkpoint(folder)) return;
  const bool has_config = std::filesystem::exists(folder / "config.json");
  require(has_config && std::filesystem::exists(folder / kWeightsFile), [&] {
    return folder.string() + ": holds no model, as there is no " + (has_config ? kWeightsFile : "config.json") +
           "; expected the output folder of adjoin train, or a folder that transformers' save_pretrained wrote";
  });
}

}  // namespace

std::string schedule_beside(const std::filesystem::path& config, const std::string& pipeline) {
  return pipeline == kKeptSchedule ? (config.parent_path() / kKeptSchedule).string() : pipeline;
}

Configuration read_configuration(const std::filesystem::path& path) {
  try {
    std::string text;
    try {
      text = read_text(path);
    } catch (const InvalidArgument& error) {
      throw DamagedFile(error.what());
    }
    const auto json = nlohmann::ordered_json::parse(text);
    require(!json.is_object() || json.contains("model") || json.contains("task"),
            "the configuration does not name its model: it has neither \"model\", as adjoin train writes, nor "
            "\"model_type\", as transformers does");
    Configuration configuration = configuration_from_json(json);
    configuration.pipeline = schedule_beside(path, configuration.pipeline);
    validate(configuration);
    return configuration;
  } catch (const nlohmann::json::exception&) {
    throw DamagedFile(path.string() + ": this is not JSON");
  } catch (const DamagedFile&) {
    throw;
  } catch (const InvalidArgument& error) {
    const std::string what = error.what();
    throw InvalidArgument(what.starts_with(path.string()) ? what : path.string() + ": " + what);
  }
}

Configuration with_absolute_paths(Configuration c) {
  const auto make_absolute = [](std::string& path, std::initializer_list<std::string_view> words) {
    if (!path.empty() && std::ranges::find(words, path) == words.end()) path = std::filesystem::absolute(path).string();
  };
  if (!c.task.empty()) return c;
  for (std::string* texts : {&c.data, &c.test}) make_absolute(*texts, {"sample"});
  make_absolute(c.vocab, {"bytes", "subword"});
  make_absolute(c.from, {});
  return c;
}

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

SavedModel open_beginning(const Configuration& configuration, const TaskMaker& make) {
  return is_pretrained(configuration.from) ? open_pretrained(configuration.from, make)
                                           : open_model({configuration.from, 0}, make);
}

Configuration begun_from(const std::string& folder) {
  if (is_pretrained(folder)) return read_pretrained(folder);
  require_model(folder);
  Configuration saved;
  read_model_folder(folder,
                    [&](const std::filesystem::path& place) { saved = read_configuration(place / "config.json"); });
  check_known(saved, "--from " + folder);
  Configuration configuration = configuration_of(recipe_of(saved.model));
  for (const Field& field : fields())
    if (field.group == "Model" && field.name != "preset" && field.name != "sequence")
      std::visit([&](auto member) { configuration.*member = saved.*member; }, field.member);
  if (saved.model == "decoder" || saved.positions == "learned") {
    configuration.context = saved.context == 0 ? saved.sequence : saved.context;
    configuration.sequence = std::min(configuration.sequence, configuration.context);
  }
  configuration.from = folder;
  return configuration;
}

std::string limit_of_beginning(const std::string& folder) {
  if (is_pretrained(folder)) return limit_of_tokens(folder);
  return folder + " has positions for " + std::to_string(begun_from(folder).context) + " tokens";
}

std::vector<std::string> drawn_anew(const SavedModel& beginning, const Task& task,
                                    const std::vector<nn::Parameter>& parameters) {
  std::vector<std::string> drawn;
  if (beginning.weights) drawn = beginning.weights->lacking;
  if (content_of_file(*beginning.task, kClassesFile) == content_of_file(task, kClassesFile)) return drawn;
  for (const nn::Parameter& parameter : parameters)
    if (parameter.name.starts_with("classifier.row.") && std::ranges::find(drawn, parameter.name) == drawn.end())
      drawn.push_back(parameter.name);
  return drawn;
}

SavedModel open_model(const CheckpointChoice& choice, const TaskMaker& make) {
  const std::filesystem::path& folder = choice.run;
  if (is_pretrained(folder)) {
    require(choice.step == 0, [&] {
      return "--step " + std::to_string(choice.step) + ": chooses a checkpoint of a run, but " + folder.string() +
             " is a folder of transformers, which has no checkpoints";
    });
    SavedModel saved = open_pretrained(folder, make);
    require(saved.weights->lacking.empty(), [&] {
      return folder.string() + ": lacks the weights of a classifier; adjoin train --from " + folder.string() +
             " trains one";
    });
    require(saved.configuration.model == "decoder" || read_pretrained_classes(folder).size() > 1, [&] {
      return (folder / "config.json").string() +
             ": \"id2label\" names one class, by which transformers means a regression, which is not supported";
    });
    return saved;
  }
  const auto read = [&](const std::filesystem::path& place, bool is_finished) {
    SavedModel saved{read_configuration(place / "config.json"), nullptr, choice, is_finished};
    if (!make) check_known(saved.configuration, folder.string());
    saved.task = make ? make(saved.configuration) : task_kind(saved.configuration).open(saved.configuration, place);
    check_described(place / "model.safetensors", *saved.task);
    return saved;
  };
  require_model(folder);
  if (choice.step == 0 && std::filesystem::exists(folder / "model.safetensors")) return read(folder, true);
  std::optional<SavedModel> saved;
  read_checkpoint(choice, {}, [&](const SavedCheckpoint& checkpoint) { saved = read(checkpoint.folder, false); });
  return *std::move(saved);
}

Configuration configured(const SavedModel& saved, const ModelUse& use) {
  Configuration configuration = with_all_ranks(on_grid(saved.configuration, use.grid));
  configuration.pipeline = Configuration().pipeline;  // it has as many stages as the run had ranks
  configuration.chunks = 1;
  configuration.stages.clear();
  configuration.zero = use.zero;
  configuration.backend = use.backend;
  configuration.host_memory = use.host_memory;
  configuration.threads_per_rank = use.threads_per_rank;
  validate(configuration);
  return configuration;
}

namespace {

/// For a folder of transformers.
void read_weights_of(const SavedModel& saved, const Communicator& world, const std::vector<nn::Parameter>& parameters) {
  const at::NoGradGuard no_gradient;
  together(world, [&] {
    for (const nn::Parameter& piece : parameters) {
      read_piece(saved.weights->tensors.at(piece.name), piece);
      require(at::isfinite(piece.tensor).all().item<bool>(), [&] {
        std::vector<std::string> theirs;
        for (const StackedTensor::Part& part : saved.weights->tensors.at(piece.name).parts) theirs.push_back(part.name);
        return saved.place.run.string() + ": tensor '" + joined(theirs, "' or '") +
               "' holds numbers that are not finite";
      });
    }
  });
}

}  // namespace

void read_weights(const SavedModel& saved, const Communicator& world, const std::vector<nn::Parameter>& parameters) {
  if (saved.weights) return read_weights_of(saved, world, parameters);
  if (saved.is_finished) return load_state(saved.place.run / kWeightsFile, parameters, {.may_hold_more = true});
  read_checkpoint(saved.place, world, [&](const SavedCheckpoint& checkpoint) {
    load_state(checkpoint.folder / kWeightsFile, parameters, {.checkpoint = checkpoint.name, .may_hold_more = true});
  });
}

void begin_with(const SavedModel& beginning, const Task& task, const std::vector<nn::Parameter>& parameters,
                int64_t seed) {
  const std::vector<std::string> names = drawn_anew(beginning, task, parameters);
  std::vector<nn::Parameter> drawn, read;
  for (const nn::Parameter& parameter : parameters)
    (std::ranges::find(names, parameter.name) == names.end() ? read : drawn).push_back(parameter);
  nn::initialize(drawn, static_cast<uint64_t>(seed));
  read_weights(beginning, parameters.front().grid.world(), read);
}

Trainer load_trainer(const SavedModel& saved, const Configuration& configuration, const Communicator& world) {
  Trainer trainer(configuration, *saved.task, world);
  read_weights(saved, world, trainer.parameters());
  return trainer;
}

std::string run_to_resume(const std::string& resume, const std::string& out) {
  if (resume != "auto") return resume;
  require(!out.empty(), "--resume auto continues the run in --out, so --out is needed");
  return has_checkpoint(out) ? out : "";
}

std::string way_to_resume(const std::string& folder, const std::string& task) {
  return task.empty() ? "adjoin train --resume " + folder
                      : "the program of its task, with resume = \"" + folder + "\" (or \"auto\")";
}

bool resumes_in_place(const Configuration& configuration) {
  std::error_code is_new;
  return !configuration.resume.empty() && std::filesystem::equivalent(configuration.resume, configuration.out, is_new);
}

void check_earlier_run(const Configuration& configuration) {
  const std::filesystem::path out = configuration.out;
  if (configuration.overwrite || resumes_in_place(configuration)) return;
  const bool is_resumable = has_checkpoint(out);
  require(!is_resumable && !std::filesystem::exists(out / "model.safetensors"), [&] {
    return "--out " + configuration.out + ": already holds a run; " +
           (is_resumable ? "--resume " + configuration.out + " continues it, " : "") + "--overwrite replaces it";
  });
}

Configuration configuration_to_resume(const std::string& folder, int64_t step) {
  Configuration configuration;
  read_checkpoint({folder, step}, {}, [&](const SavedCheckpoint& checkpoint) {
    configuration = read_configuration(checkpoint.folder / "config.json");
  });
  configuration.resume = configuration.out = folder;
  configuration.step = step;
  configuration.overwrite = false;  // it was meant for the earlier run
  configuration.trace.clear();
  return configuration;
}

void check_weights_to_resume(const CheckpointChoice& choice, const Task& task) {
  read_checkpoint(choice, {}, [&](const SavedCheckpoint& checkpoint) {
    check_described(checkpoint.folder / "model.safetensors", task);
  });
}

}  // namespace adjoin::train
