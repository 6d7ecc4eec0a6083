#include "adjoin/train/resume.hpp"

#include <filesystem>
#include <system_error>

#include "adjoin/base/error.hpp"
#include "adjoin/hugging_face/pretrained.hpp"
#include "adjoin/store/checkpoint.hpp"
#include "adjoin/store/checkpoint_folders.hpp"
#include "adjoin/store/read_checkpoint.hpp"
#include "adjoin/task/configuration_file.hpp"
#include "adjoin/task/task.hpp"

namespace adjoin::train {

Configuration begun_from(const std::string& folder) {
  return model_folder({folder})->beginning();
}

std::string limit_of_beginning(const std::string& folder) {
  return model_folder({folder})->limit_of_tokens();
}

std::string run_to_resume(const std::string& resume, const std::string& out) {
  if (resume != "auto") return resume;
  require(!out.empty(), "--resume auto continues the run in --out, so --out is needed");
  return has_checkpoint(out) ? out : "";
}

std::string way_to_resume(const std::string& folder, const std::string& task) {
  return task.empty() || task == kProgramTask
             ? "adjoin train --resume " + folder
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
  require(!is_resumable && !std::filesystem::exists(out / kWeightsFile), [&] {
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
    check_state(checkpoint.folder / kWeightsFile, parameters_of(described_model(task)));
  });
}

}  // namespace adjoin::train
