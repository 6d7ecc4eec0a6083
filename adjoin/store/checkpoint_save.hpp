#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/store/state_parts.hpp"

namespace adjoin::train {

/// The content of a checkpoint.
struct CheckpointContent {
  struct State {
    std::string file;  // the file's name
    std::vector<nn::Parameter> pieces;
  };
  std::vector<State> states;
  std::function<void(const std::filesystem::path& folder)> add_files{};  // on rank 0, on another thread; or empty
  std::string name;                                                      // from new_checkpoint_name; rank 0's is used
  nlohmann::ordered_json state;                                          // of state.json, includes the name
};

/// A checkpoint that all ranks of a world save, in three stages: rank 0 makes the files with room for all tensors; each rank
/// writes its parts; rank 0 writes state.json and renames the folder. Each stage runs on a separate thread of the rank, and the
/// next stage begins when all ranks know that the previous one has ended.
class CheckpointSave {
 public:
  struct Place {
    std::filesystem::path run;
    int64_t step = 0, keep = 1;  // as in publish_checkpoint
  };

  /// All ranks call it. With `copies` the run may go on at once, else when the checkpoint is complete.
  CheckpointSave(Place place, const CheckpointContent& content, const Communicator& world, bool copies);
  /// Stops the thread and waits for it; an incomplete checkpoint is removed.
  ~CheckpointSave();
  CheckpointSave(const CheckpointSave&) = delete;
  CheckpointSave& operator=(const CheckpointSave&) = delete;

  /// Begins the next stage if all ranks have ended this one; returns whether the checkpoint is complete. All ranks call it now
  /// and then; they tell each other and do not wait for the disk.
  /// Throws: IoError on the rank where writing fails
  bool advance();
  /// Returns when the checkpoint is complete. All ranks call it, as wait_for_all; `what` defaults to "writing" and the folder.
  /// Throws: as advance
  void finish(const std::string& what = "", std::chrono::milliseconds note_after = std::chrono::minutes(1));

  /// Whether all older checkpoints that had to be removed could be, as known on rank 0.
  bool removed_all() const { return removed_all_; }

 private:
  enum class Stage : uint8_t { making, writing, publishing, over };
  void begin(Stage stage);
  void begin_next() { begin(static_cast<Stage>(static_cast<int>(stage_) + 1)); }
  void work(Stage stage);

  Place place_;
  CheckpointContent content_;  // without pieces
  Communicator world_;
  std::filesystem::path fresh_;
  std::vector<StateParts> parts_;
  Stage stage_ = Stage::making;
  std::atomic<bool> stops_ = false;
  bool removed_all_ = true, is_made_ = false;
  std::future<void> running_;
};

}  // namespace adjoin::train
