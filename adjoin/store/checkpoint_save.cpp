#include "adjoin/store/checkpoint_save.hpp"

#include <system_error>
#include <utility>

#include "adjoin/comm/values.hpp"
#include "adjoin/store/checkpoint_folders.hpp"
#include "adjoin/store/on_root.hpp"
#include "adjoin/store/output_file.hpp"
#include "adjoin/store/read_checkpoint.hpp"
#include "adjoin/store/whole_checkpoint.hpp"

namespace adjoin::train {

CheckpointSave::CheckpointSave(Place place, const CheckpointContent& content, const Communicator& world, bool copies)
    : place_(std::move(place)), content_(content), world_(world), fresh_(fresh_checkpoint(place_.run, place_.step)) {
  for (const CheckpointContent::State& state : content.states) parts_.emplace_back(state.pieces, world, copies);
  for (CheckpointContent::State& state : content_.states) state.pieces.clear();
  begin(Stage::making);
}

CheckpointSave::~CheckpointSave() {
  stops_ = true;
  if (running_.valid()) running_.wait();
  std::error_code ignored;
  if (is_made_ && !std::filesystem::exists(fresh_ / kStateFile, ignored)) std::filesystem::remove_all(fresh_, ignored);
}

void CheckpointSave::begin(Stage stage) {
  stage_ = stage;
  if (stage == Stage::over) return;
  const bool works = stage == Stage::writing || world_.rank() == 0;
  running_ = std::async(std::launch::async, [this, stage, works] {
    if (works) work(stage);
  });
}

void CheckpointSave::work(Stage stage) {
  if (stage == Stage::making) {
    begin_checkpoint(place_.run, place_.step);
    is_made_ = true;
    for (size_t i = 0; i < parts_.size(); ++i)
      parts_[i].make_file(fresh_ / content_.states[i].file, {{kCheckpointKey, content_.name}});
    if (content_.add_files) content_.add_files(fresh_);
  } else if (stage == Stage::writing) {
    for (size_t i = 0; i < parts_.size() && !stops_; ++i) {
      // Each rank begins with another file, as the system lets only one process at a time write to a file.
      const size_t file = (i + static_cast<size_t>(world_.rank())) % parts_.size();
      parts_[file].write(fresh_ / content_.states[file].file, stops_);
    }
  } else {
    sync_to_disk(fresh_);  // the names of the files must be on the disk before state.json, which says that they are
    write_atomically(fresh_ / kStateFile, sealed_state(content_.state, fresh_));
    removed_all_ = publish_checkpoint(place_.run, place_.step, place_.keep);
  }
}

bool CheckpointSave::advance() {
  if (running_.valid() && running_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) running_.get();
  if (stage_ != Stage::over && largest_of_all(running_.valid(), world_) == 0) begin_next();
  return stage_ == Stage::over;
}

void CheckpointSave::finish(const std::string& what, std::chrono::milliseconds note_after) {
  while (stage_ != Stage::over) {
    wait_for_all(world_, what.empty() ? "writing " + fresh_.string() : what, running_, note_after);
    begin_next();
  }
}

}  // namespace adjoin::train
