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
#include "adjoin/train/storage/state_parts.hpp"

namespace adjoin::train {

/// What a checkpoint holds.
struct CheckpointContent {
  struct State {
    std::string file;  // its name
    std::vector<nn::Parameter> pieces;
  };
  std::vector<State> states;
  std::function<void(const std::filesystem::path& folder)> add_files{};  // by rank 0, on another thread; or none
  std::string name;                                                      // new_checkpoint_name, that of rank 0 counts
  nlohmann::ordered_json state;                                          // of state.json, which has the name
};

/// A checkpoint being saved by all ranks of a world, in three stages: rank 0 makes the files with room for all tensors, each rank
/// writes its parts, rank 0 writes state.json and gives the folder its name. Each stage runs on a thread of the rank's own, and the
/// next one begins when all ranks know that it has ended.
class CheckpointSave {
 public:
  struct Place {
    std::filesystem::path run;
    int64_t step = 0, keep = 1;  // as publish_checkpoint has them
  };

  /// Called by all ranks. With `copies` the run may go on at once, else when the checkpoint is there.
  CheckpointSave(Place place, const CheckpointContent& content, const Communicator& world, bool copies);
  /// Waits for the thread, which stops; what is not whole is removed.
  ~CheckpointSave();
  CheckpointSave(const CheckpointSave&) = delete;
  CheckpointSave& operator=(const CheckpointSave&) = delete;

  /// Goes on with the next stage where all ranks have ended this one; whether the checkpoint is there. Called by all ranks now and
  /// then, which tell each other and do not wait for the disk.
  /// Throws: IoError on the rank whose disk refuses
  bool advance();
  /// Returns when it is there. Called by all ranks, as wait_for_all is; `what` is "writing" and the folder unless given.
  /// Throws: as advance
  void finish(const std::string& what = "", std::chrono::milliseconds note_after = std::chrono::minutes(1));

  /// Whether all older checkpoints that are to go could be removed, as rank 0 knows it.
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
