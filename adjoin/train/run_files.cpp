#include "adjoin/train/run_files.hpp"

#include <nlohmann/json.hpp>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/store/checkpoint.hpp"
#include "adjoin/store/checkpoint_folders.hpp"
#include "adjoin/store/output_file.hpp"
#include "adjoin/store/read_text.hpp"
#include "adjoin/task/configuration_file.hpp"
#include "adjoin/train/saved_model.hpp"
#include "adjoin/train/summary.hpp"
#include "adjoin/train/tasks.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;

std::optional<Configuration> configuration_in(const nlohmann::ordered_json& json) {
  if (!json.is_object() || !json.contains("config")) return std::nullopt;
  try {
    Configuration configuration = configuration_from_json(json["config"]);
    validate(configuration);
    return configuration;
  } catch (const InvalidArgument&) {  // from another version
    return std::nullopt;
  }
}

}  // namespace

nlohmann::ordered_json read_json(const fs::path& path) {
  auto json = nlohmann::ordered_json::parse(text_or_nothing(path), nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? nlohmann::ordered_json() : json;
}

void write_beginning(const fs::path& folder, const RunBeginning& beginning) {
  const Origin origin = this_origin();
  const nlohmann::ordered_json json = {{"adjoin", origin.adjoin},
                                       {"libtorch", origin.libtorch},
                                       {"host", origin.host},
                                       {"date", origin.date},
                                       {"machine", to_json(origin.machine)},
                                       {"first_step", beginning.first_step},
                                       {"steps", beginning.steps},
                                       {"config", to_json(beginning.configuration)}};
  // A run can go on without this file; a file that it needs will report a full disk.
  refusal_of([&] { write_atomically(folder / kRunFile, json.dump(2) + "\n"); });
}

std::optional<RunBeginning> read_beginning(const fs::path& folder) {
  const nlohmann::ordered_json json = read_json(folder / kRunFile);
  if (const auto configuration = configuration_in(json)) {
    const auto number = [&](const char* key) {
      return json.contains(key) && json[key].is_number_integer() ? json[key].get<int64_t>() : 0;
    };
    return RunBeginning{*configuration, number("first_step"), number("steps")};
  }
  if (const auto configuration = configuration_in(read_json(folder / kSummary))) return RunBeginning{*configuration};
  try {
    for (const CheckpointFolder& checkpoint : checkpoints_in(folder))
      return RunBeginning{read_configuration(checkpoint.path / "config.json")};
  } catch (const Error&) {  // it is damaged, or being replaced
  }
  return std::nullopt;
}

void remove_results(const fs::path& folder, const Task& task) {
  std::vector<std::string> names = files_of_tasks();
  names.insert(names.end(), {kWeightsFile, kKeptSchedule, "config.json", kSummary, kRunFile});
  for (const TaskFile& file : task.files()) names.push_back(file.name);
  for (const std::string& name : names) fs::remove(folder / name);
  fs::remove_all(folder / kTensorBoard);
}

}  // namespace adjoin::train
