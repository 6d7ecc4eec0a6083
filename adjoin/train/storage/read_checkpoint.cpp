#include "adjoin/train/storage/read_checkpoint.hpp"

#include <chrono>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/train/storage/folder_replacement.hpp"
#include "adjoin/train/storage/read_text.hpp"

namespace adjoin::train {
namespace {

constexpr int kAttempts = 12;
constexpr auto kFirstPause = std::chrono::milliseconds(1);  // doubled each time: 4 s in all
constexpr const char* kCheckpoint = "checkpoint";

enum class Outcome : int32_t { read, failed, of_another };

std::filesystem::path find(const std::filesystem::path& run) {
  const auto folder = find_folder(run, kCheckpoint);
  require(folder.has_value(), [&] { return run.string() + ": there is no checkpoint to continue from"; });
  return *folder;
}

std::string read_state(const std::filesystem::path& run) {
  const std::filesystem::path file = find(run) / "state.json";
  const std::string state = read_text(file);
  require(!state.empty(), [&] { return file.string() + ": the file is empty"; });
  return state;
}

/// Whether the checkpoint has another state than it had, or has moved from the folder where it was read. Asked several
/// times, as it may be replaced just while it is looked at.
bool has_changed(const std::filesystem::path& run, const std::filesystem::path& folder, const std::string& state) {
  for (int tries = 0; tries < 5; ++tries) {
    try {
      return state != read_state(run) || folder != find(run);
    } catch (const Error&) {
    }
  }
  return !state.empty();
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

bool has_checkpoint(const std::filesystem::path& run) {
  return find_folder(run, kCheckpoint).has_value();
}

void read_checkpoint(const std::filesystem::path& run, const Communicator& world,
                     const std::function<void(const SavedCheckpoint&)>& read) {
  auto pause = kFirstPause;
  for (int attempt = 1;; ++attempt, pause *= 2) {
    std::exception_ptr error;
    auto mine = Outcome::read;
    const auto tried = [&](const auto& work) {
      try {
        work();
      } catch (const OtherCheckpoint&) {
        error = std::current_exception(), mine = Outcome::of_another;
      } catch (const Error&) {
        error = std::current_exception(), mine = Outcome::failed;
      }
    };
    std::string state;
    std::filesystem::path folder;
    if (world.rank() == 0) tried([&] { state = read_state(run); });
    state = text_of(0, state, world);
    if (!state.empty()) tried([&] { read({folder = find(run), state, name_in(state)}); });
    const auto worst = static_cast<Outcome>(largest_of_all(static_cast<int64_t>(mine), world));
    if (worst == Outcome::read) return;
    const bool is_replaced = mine != Outcome::read && has_changed(run, folder, state);
    const bool may_pass = largest_of_all(is_replaced, world) != 0 || worst == Outcome::of_another;
    if (!may_pass || attempt == kAttempts) {
      if (error) std::rethrow_exception(error);
      return world.barrier();  // until the error of another worker ends the world
    }
    std::this_thread::sleep_for(pause);
  }
}

void check_belongs(const SafetensorsFile& file, const std::filesystem::path& path, const std::string& checkpoint) {
  const auto found = file.metadata().find(kCheckpointKey);
  const std::string name = found == file.metadata().end() ? "" : found->second;
  if (name != checkpoint)
    throw OtherCheckpoint(path.string() + ": is of another checkpoint than state.json beside it (" +
                          (name.empty() ? "none" : name) + ", expected " + checkpoint + ")");
}

}  // namespace adjoin::train
