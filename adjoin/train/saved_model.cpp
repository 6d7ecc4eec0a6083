#include "adjoin/train/saved_model.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/train/checkpoint.hpp"
#include "adjoin/train/on_root.hpp"
#include "adjoin/train/output_file.hpp"
#include "adjoin/train/read_checkpoint.hpp"

namespace adjoin::train {
namespace {

Configuration read_configuration(const std::filesystem::path& path) {
  try {
    const Configuration configuration = configuration_from_json(nlohmann::ordered_json::parse(read_text(path)));
    validate(configuration);
    return configuration;
  } catch (const nlohmann::json::exception&) {
    throw InvalidArgument(path.string() + ": this is not JSON");
  } catch (const InvalidArgument& error) {
    const std::string what = error.what();
    throw InvalidArgument(what.starts_with(path.string()) ? what : path.string() + ": " + what);
  }
}

/// The classes that a model tells apart; without the file it was saved when there were two, negative and positive.
data::ClassNames read_classes(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) {
    require(std::filesystem::exists(path.parent_path()), [&] { return path.string() + ": the folder is gone"; });
    return {};
  }
  try {
    return data::ClassNames(nlohmann::json::parse(read_text(path)).get<std::vector<std::string>>());
  } catch (const nlohmann::json::exception&) {
    throw InvalidArgument(path.string() + ": this is no list of names");
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(path.string() + ": " + error.what());
  }
}

/// Checks that a file holds the weights of a task's model. Nothing of the model's size is allocated.
void check_described(const std::filesystem::path& path, const Configuration& configuration, const Task& task) {
  const Grid one_worker(Communicator(), GridShape({{"dp", 1}, {"tp", 1}}));
  const models::Model model = task.model(one_worker, tensor_options(configuration).device(at::kMeta));
  check_weights(path, nn::parameters_of(*model.module));
}

/// Reads each worker's pieces of the weights; called by all workers of the world, which read the same ones.
void read_weights(const SavedModel& saved, const Communicator& world, const torch::nn::Module& model) {
  if (saved.is_finished) return load_weights(saved.run / "model.safetensors", nn::parameters_of(model));
  read_checkpoint(saved.run, world, [&](const SavedCheckpoint& checkpoint) {
    load_weights(checkpoint.folder / "model.safetensors", nn::parameters_of(model), checkpoint.name);
  });
}

}  // namespace

std::string read_text(const std::filesystem::path& path) {
  std::error_code none;
  const auto status = std::filesystem::status(path, none);
  require(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status),
          [&] { return path.string() + ": expected a file"; });
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), [&] { return path.string() + ": the file cannot be opened"; });
  std::ostringstream text;
  text << file.rdbuf();
  require(file.good() || file.eof(), [&] { return path.string() + ": the file cannot be read"; });
  return text.str();
}

void save_model(const std::filesystem::path& folder, const Configuration& configuration, const Task& task,
                const torch::nn::Module& model, const Grid& grid, const Metadata& metadata) {
  on_root(grid.world(), "writing " + folder.string(), [&] {
    for (const TaskFile& file : task.files()) write_atomically(folder / file.name, file.content);
    write_atomically(folder / "config.json", to_json(configuration).dump(2) + "\n");
  });
  // Last: where it stands, the others do.
  save_weights(folder / "model.safetensors", nn::parameters_of(model), grid, metadata);
}

SavedModel open_model(const std::filesystem::path& folder) {
  require(std::filesystem::is_directory(folder), [&] { return folder.string() + ": there is no such folder"; });
  const auto read = [&](const std::filesystem::path& place, bool is_finished) {
    SavedModel saved{read_configuration(place / "config.json"), nullptr, folder, is_finished};
    TrainingInput input{data::WordPiece::load((place / "vocab.txt").string()), read_classes(place / "classes.json"), {}, {}};
    saved.task = std::make_shared<TextClassification>(saved.configuration, std::move(input));
    check_described(place / "model.safetensors", saved.configuration, *saved.task);
    return saved;
  };
  if (std::filesystem::exists(folder / "model.safetensors")) return read(folder, true);
  require(has_checkpoint(folder), [&] {
    return folder.string() + ": there is no model; expected model.safetensors or a checkpoint, as adjoin train writes";
  });
  std::optional<SavedModel> saved;
  read_checkpoint(folder, {}, [&](const SavedCheckpoint& checkpoint) { saved = read(checkpoint.folder, false); });
  return *std::move(saved);
}

Trainer load_trainer(const SavedModel& saved, const Configuration& configuration, const Communicator& world) {
  Trainer trainer(configuration, *saved.task, world);
  read_weights(saved, world, trainer.module());
  return trainer;
}

std::string run_to_resume(const std::string& resume, const std::string& out) {
  if (resume != "auto") return resume;
  require(!out.empty(), "--resume auto: goes on with the run in --out, which is needed");
  return has_checkpoint(out) ? out : "";
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
    return "--out " + configuration.out + ": holds a run already; " +
           (is_resumable ? "--resume " + configuration.out + " goes on with it, " : "") + "--overwrite replaces it";
  });
}

Configuration configuration_to_resume(const std::string& folder) {
  Configuration configuration;
  read_checkpoint(folder, {}, [&](const SavedCheckpoint& checkpoint) {
    configuration = read_configuration(checkpoint.folder / "config.json");
  });
  configuration.resume = configuration.out = folder;
  configuration.overwrite = false;  // what the run before was asked
  return configuration;
}

void check_weights_to_resume(const std::string& folder, const Configuration& configuration, const Task& task) {
  read_checkpoint(folder, {}, [&](const SavedCheckpoint& checkpoint) {
    check_described(checkpoint.folder / "model.safetensors", configuration, task);
  });
}

data::WordPiece tokenizer_to_resume(const std::string& folder) {
  std::optional<data::WordPiece> tokenizer;
  read_checkpoint(folder, {}, [&](const SavedCheckpoint& checkpoint) {
    tokenizer = data::WordPiece::load((checkpoint.folder / "vocab.txt").string());
  });
  return *std::move(tokenizer);
}

data::ClassNames classes_to_resume(const std::string& folder) {
  data::ClassNames classes;
  read_checkpoint(folder, {}, [&](const SavedCheckpoint& checkpoint) {
    classes = read_classes(checkpoint.folder / "classes.json");
  });
  return classes;
}

}  // namespace adjoin::train
