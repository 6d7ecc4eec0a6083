#include "adjoin/store/read_checkpoint.hpp"

#include <chrono>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/store/checkpoint_folders.hpp"
#include "adjoin/store/fail_alike.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/store/read_text.hpp"
#include "adjoin/store/whole_checkpoint.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;

constexpr int kAttempts = 12;
constexpr auto kFirstPause = std::chrono::milliseconds(1);  // doubled each time: 4 s in total

/// What rank 0 finds, and all ranks get.
struct Found {
  CheckpointFolder checkpoint{};   // only on rank 0
  std::string state{}, trouble{};  // trouble: why nothing can be read
};

std::string listed(const std::vector<CheckpointFolder>& checkpoints) {
  std::string text;
  for (const CheckpointFolder& checkpoint : checkpoints)
    text += (text.empty() ? "" : ", ") + std::to_string(checkpoint.step);
  return text;
}

std::string state_in(const fs::path& folder) {
  return text_or_nothing(folder / kStateFile);
}

/// The first checkpoint to read that is not in `passed_over`.
Found find(const CheckpointChoice& choice, const std::set<std::string>& passed_over) {
  const std::vector<CheckpointFolder> all = checkpoints_in(choice.run);
  if (all.empty())
    return {.trouble = choice.run.string() + (fs::exists(choice.run) ? ": there is no checkpoint to continue from"
                                                                     : ": there is no such folder")};
  for (const CheckpointFolder& checkpoint : all) {
    if (choice.step > 0 && checkpoint.step != choice.step) continue;
    const std::string state = state_in(checkpoint.path);
    if (state.empty() && !fs::exists(checkpoint.path)) return find(choice, passed_over);  // it was just removed
    if (!passed_over.contains(checkpoint.path.string() + state)) return {checkpoint, state, ""};
  }
  return {.trouble = "--step " + std::to_string(choice.step) + ": " + choice.run.string() +
                     " has no such checkpoint; it has " + listed(all)};
}

/// Warns once in a process, which may read a checkpoint's files one after another.
void warn_once(const std::string& what) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard lock(mutex);
  if (told.insert(what).second) warn(what);
}

std::string name_in(const std::string& state) {
  const auto json = nlohmann::json::parse(state, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.contains(kCheckpointKey) && json[kCheckpointKey].is_string()
             ? json[kCheckpointKey].get<std::string>()
             : "";
}

}  // namespace

std::string new_checkpoint_name() {
  std::random_device random;
  char name[17];
  std::snprintf(name, sizeof name, "%08x%08x", random(), random());
  return name;
}

void read_checkpoint(const CheckpointChoice& choice, const Communicator& world,
                     const std::function<void(const SavedCheckpoint&)>& read) {
  std::set<std::string> passed_over;  // on rank 0
  std::string damage;
  auto pause = kFirstPause;
  for (int attempt = 1;;) {
    Found found;
    fail_alike(world, [&] {
      if (world.rank() == 0) found = find(choice, passed_over);
    });
    const std::string folder = text_from_rank(0, found.checkpoint.path.string(), world);
    for (std::string* text : {&found.state, &found.trouble}) *text = text_from_rank(0, *text, world);
    if (!found.trouble.empty() && damage.empty()) throw InvalidArgument(found.trouble);
    if (!found.trouble.empty())
      throw DamagedFile(damage + (passed_over.size() > 1 ? "; no other checkpoint is whole" : ""));
    if (!damage.empty() && world.rank() == 0) warn_once(damage + "; " + folder + " is read instead");
    const auto is_gone = [&] {  // or was replaced or moved, as rank 0 sees it
      return largest_of_all(world.rank() == 0 && state_in(folder) != found.state, world) != 0;
    };
    try {
      fail_alike(world, [&] {
        if (world.rank() == 0) check_whole(found.checkpoint, found.state);
      });
      return read({folder, found.state, name_in(found.state)});
    } catch (const InvalidArgument& error) {
      if (!is_gone()) {
        if (dynamic_cast<const DamagedFile*>(&error) == nullptr) throw;
        damage = error.what();
        passed_over.insert(folder + found.state);
        continue;
      }
    }
    require(attempt++ < kAttempts,
            [&] { return choice.run.string() + ": each checkpoint was replaced before it was read"; });
    std::this_thread::sleep_for(pause);
    pause *= 2;
  }
}

void check_belongs(const SafetensorsFile& file, const std::filesystem::path& path, const std::string& checkpoint) {
  const auto found = file.metadata().find(kCheckpointKey);
  const std::string name = found == file.metadata().end() ? "" : found->second;
  if (name != checkpoint)
    throw DamagedFile(path.string() + ": belongs to a different checkpoint than state.json beside it (" +
                      (name.empty() ? "none" : name) + ", expected " + checkpoint + ")");
}

}  // namespace adjoin::train
