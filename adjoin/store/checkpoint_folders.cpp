#include "adjoin/store/checkpoint_folders.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "adjoin/store/output_file.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;

constexpr const char *kFolder = "checkpoints", *kEarlier = "checkpoint";
constexpr std::string_view kName = "step-", kFresh = ".new", kAside = ".old";

std::string name_of(int64_t step) {
  return std::string(kName) + std::to_string(step);
}

/// The step in "step-20" and `ending`.
std::optional<int64_t> step_of(std::string_view name, std::string_view ending = "") {
  if (!name.starts_with(kName) || !name.ends_with(ending)) return std::nullopt;
  name.remove_prefix(kName.size()), name.remove_suffix(ending.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  return is_number && std::to_string(step) == name ? std::optional(step) : std::nullopt;
}

/// Whether "checkpoint.old", "step-20.old" or "step-20.old.1".
bool is_aside(const std::string& name) {
  const size_t at = name.rfind(kAside);
  return at != name.npos && (name.starts_with(kName) || name.starts_with(kEarlier)) &&
         name.find_first_not_of(".0123456789", at + kAside.size()) == name.npos;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code none;
  for (fs::directory_iterator entry(folder, none), end; !none && entry != end; entry.increment(none))
    entries.push_back(entry->path());
  if (none && none != std::errc::no_such_file_or_directory && none != std::errc::not_a_directory)
    throw IoError(folder.string() + ": " + none.message());
  std::sort(entries.begin(), entries.end());
  return entries;
}

/// The checkpoint of an earlier version, which had only one: it had its final name or, after a crash, was complete under a name
/// beside it.
std::optional<CheckpointFolder> earlier_version(const fs::path& run) {
  for (const char* ending : {".next", "", ".next", ""}) {  // twice, as it may be renamed between two looks
    const fs::path path = run / (kEarlier + std::string(ending));
    if (!fs::exists(path)) continue;
    std::ifstream file(path / kStateFile);
    const auto state = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    const bool tells = state.is_object() && state.contains("step") && state["step"].is_number_integer();
    return CheckpointFolder{tells ? state["step"].get<int64_t>() : 0, path};
  }
  return std::nullopt;
}

/// Removes all folders that were moved aside; returns whether none is left.
bool remove_aside(const fs::path& run) {
  bool all_gone = true;
  for (const fs::path& folder : {run / kFolder, run})
    for (const fs::path& path : entries_of(folder)) {
      std::error_code error;
      if (is_aside(path.filename())) fs::remove_all(path, error);
      all_gone &= !error;
    }
  return all_gone;
}

/// Renames to `path`.old, or `path`.old.1, … if earlier ones could not be removed.
void step_aside(const fs::path& path) {
  const std::string first = path.string() + std::string(kAside);
  fs::path place = first;
  for (int number = 1; fs::exists(place); ++number) place = first + "." + std::to_string(number);
  fs::rename(path, place);
}

/// Renames step-S.new, which is complete, to its final name.
void take_place(const fs::path& run, int64_t step) {
  const fs::path place = run / kFolder / name_of(step);
  if (fs::exists(place)) step_aside(place);
  fs::rename(place.string() + std::string(kFresh), place);
  sync_to_disk(run / kFolder);
}

/// Finishes a replacement that an earlier version left incomplete.
void recover_earlier_version(const fs::path& run) {
  const fs::path place = run / kEarlier, next = place.string() + ".next";
  fs::remove_all(place.string() + std::string(kFresh));
  if (!fs::exists(next)) return;
  if (fs::exists(place)) step_aside(place);
  fs::rename(next, place);
  sync_to_disk(run);
}

/// Returns whether all of them could be removed.
bool remove_these(const fs::path& run, const std::vector<CheckpointFolder>& checkpoints) {
  for (const CheckpointFolder& checkpoint : checkpoints) {
    step_aside(checkpoint.path);
    sync_to_disk(checkpoint.path.parent_path());  // else a power cut could leave a part of it under its name
  }
  return remove_aside(run);
}

/// The checkpoints that one look at the folder finds.
std::vector<CheckpointFolder> look_for_checkpoints(const fs::path& run) {
  std::vector<CheckpointFolder> found;
  for (const fs::path& path : entries_of(run / kFolder)) {
    const std::string name = path.filename();
    auto step = step_of(name);
    if (!step && (step = step_of(name, kFresh)) && !fs::exists(path / kStateFile)) continue;  // it is being filled
    if (step && !fs::is_regular_file(path)) found.push_back({*step, path});  // also a folder that was just removed
  }
  // Of two of the same step the complete .new one is newer.
  std::stable_sort(found.begin(), found.end(), [](const CheckpointFolder& a, const CheckpointFolder& b) {
    return a.step != b.step ? a.step > b.step : a.path > b.path;
  });
  if (auto earlier = earlier_version(run)) found.push_back(*std::move(earlier));
  return found;
}

}  // namespace

std::vector<CheckpointFolder> checkpoints_in(const fs::path& run) {
  return on_disk([&] {
    std::vector<CheckpointFolder> found;
    // Several times: if one checkpoint is published and the previous one removed during a look, it may see neither.
    for (int looks = 0; looks < 4 && found.empty(); ++looks) found = look_for_checkpoints(run);
    return found;
  });
}

bool has_checkpoint(const fs::path& run) {
  return !checkpoints_in(run).empty();
}

fs::path fresh_checkpoint(const fs::path& run, int64_t step) {
  return run / kFolder / (name_of(step) + std::string(kFresh));
}

void begin_checkpoint(const fs::path& run, int64_t step) {
  on_disk([&] {
    if (fs::create_directory(run / kFolder)) sync_to_disk(run);
    fs::remove_all(fresh_checkpoint(run, step));
    fs::create_directory(fresh_checkpoint(run, step));
  });
}

bool publish_checkpoint(const fs::path& run, int64_t step, int64_t keep) {
  return on_disk([&] {
    sync_to_disk(fresh_checkpoint(run, step));
    take_place(run, step);
    std::vector<CheckpointFolder> all = checkpoints_in(run);
    all.erase(all.begin(), all.begin() + std::min(std::ssize(all), static_cast<std::ptrdiff_t>(keep)));
    std::reverse(all.begin(), all.end());
    return remove_these(run, all);
  });
}

void recover_checkpoints(const fs::path& run) {
  on_disk([&] {
    for (const fs::path& path : entries_of(run / kFolder)) {
      const auto step = step_of(path.filename().string(), kFresh);
      if (!step) continue;
      if (fs::exists(path / kStateFile))
        take_place(run, *step);
      else
        fs::remove_all(path);
    }
    recover_earlier_version(run);
    remove_aside(run);
  });
}

void remove_checkpoints_after(const fs::path& run, int64_t step) {
  on_disk([&] {
    recover_checkpoints(run);
    if (step < 0) {
      for (const char* folder : {kEarlier, kFolder})
        if (fs::exists(run / folder)) step_aside(run / folder);
      sync_to_disk(run);
      remove_aside(run);
      return;
    }
    std::vector<CheckpointFolder> later = checkpoints_in(run);
    std::erase_if(later, [&](const CheckpointFolder& checkpoint) { return checkpoint.step <= step; });
    remove_these(run, later);
  });
}

}  // namespace adjoin::train
