#include "adjoin/train/checkpoint_report.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/store/checkpoint.hpp"
#include "adjoin/store/checkpoint_folders.hpp"
#include "adjoin/store/output_file.hpp"
#include "adjoin/store/read_checkpoint.hpp"
#include "adjoin/store/read_text.hpp"
#include "adjoin/store/state_sums.hpp"
#include "adjoin/store/whole_checkpoint.hpp"
#include "adjoin/task/configuration_file.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/train/resume.hpp"
#include "adjoin/train/run_state.hpp"
#include "adjoin/train/saved_model.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;

/// Returns its metadata; none where it has no checksums.
Metadata check_file(const fs::path& path, const std::string& checkpoint, bool verifies) {
  const SafetensorsFile file(path);
  check_belongs(file, path, checkpoint);
  if (verifies) verify_sums(file, path);
  return sums_of(file, path).empty() ? Metadata() : file.metadata();
}

/// Returns the hash of its weights and moments; "" where they have no checksums.
std::string check(const CheckpointFolder& checkpoint, bool verifies) {
  const fs::path &folder = checkpoint.path, state = folder / kStateFile;
  const std::string text = text_or_nothing(state);
  check_whole(checkpoint, text);
  const RunState run = run_state_of(state, text);
  const std::string name = nlohmann::json::parse(text).value(kCheckpointKey, "");
  std::map<std::string, Metadata> sums;
  for (const char* file : {kWeightsFile, kMomentsFile}) sums.emplace(file, check_file(folder / file, name, verifies));
  if (run.validations.best_loss) check_file(folder / kBestFile, name, verifies);
  const bool has_sums = std::ranges::none_of(sums, [](const auto& file) { return file.second.empty(); });
  return has_sums ? hexadecimal(hash_of_sums(sums)) : "";
}

}  // namespace

std::vector<CheckpointReport> report_checkpoints(const fs::path& run, bool verifies) {
  require(fs::exists(run), [&] { return run.string() + ": there is no such folder"; });
  require(fs::is_directory(run), [&] { return run.string() + ": is not a folder"; });
  std::vector<CheckpointReport> reports;
  for (const CheckpointFolder& checkpoint : checkpoints_in(run)) {
    CheckpointReport& report = reports.emplace_back();
    report.step = checkpoint.step, report.folder = checkpoint.path;
    on_disk([&] {
      for (const auto& entry : fs::directory_iterator(checkpoint.path))
        if (entry.is_regular_file()) report.bytes += static_cast<int64_t>(entry.file_size());
    });
    try {
      report.layout = layout_text(read_configuration(checkpoint.path / "config.json"));
      report.hash = check(checkpoint, verifies);
    } catch (const InvalidArgument& error) {
      report.damage = error.what();
    }
  }
  require(!reports.empty(), [&] {
    return run.string() + (fs::exists(run / kStateFile) ? ": this is a checkpoint; expected the folder of its run"
                                                        : ": there is no checkpoint");
  });
  return reports;
}

}  // namespace adjoin::train
