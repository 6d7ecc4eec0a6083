#include "adjoin/train/storage/read_checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <optional>
#include <thread>

#include "adjoin/base/error.hpp"
#include "adjoin/train/storage/folder_replacement.hpp"
#include "adjoin/train/storage/read_text.hpp"
#include "tests/support/safetensors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;
using adjoin::testing::for_each_world;
using test::contents_of;
using test::message_of;
using test::put;
using test::TemporaryFolder;
using ::testing::HasSubstr;

void save(const fs::path& run, const std::string& name) {
  FolderReplacement fresh(run, "checkpoint");
  put(fresh.folder() / "model", name);
  put(fresh.folder() / "state.json", "{\"checkpoint\": \"" + name + "\"}");
  fresh.publish();
}

/// What load_state does: reads a file, and refuses one of another checkpoint.
void expect_part_of(const SavedCheckpoint& saved) {
  const std::string found = read_text(saved.folder / "model");
  if (found != saved.name) throw OtherCheckpoint("model is of " + found);
}

TEST(ReadCheckpoint, gives_all_workers_the_same_one_while_they_are_replaced) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    std::optional<TemporaryFolder> folder;  // of rank 0
    std::vector<uint8_t> path(200);
    if (world.rank() == 0) {
      folder.emplace();
      const std::string text = folder->path().string();
      std::copy(text.begin(), text.end(), path.begin());
      save(folder->path(), "0");
    }
    world.broadcast(buffer(path), 0);
    const fs::path run = std::string(reinterpret_cast<const char*>(path.data()));
    std::atomic<bool> ends = false;
    std::jthread writer;
    if (world.rank() == 0)
      writer = std::jthread([&] {
        for (int i = 1; !ends; ++i) {
          save(run, std::to_string(i));
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
      });
    const struct Stop {  // also where a reader throws, or the writer would be waited for without end
      std::atomic<bool>& ends;
      ~Stop() { ends = true; }
    } stop{ends};
    for (int i = 0; i < 50; ++i) {
      int64_t mine = 0;
      read_checkpoint(run, world, [&](const SavedCheckpoint& saved) {
        expect_part_of(saved);
        mine = std::stoi(saved.name);
      });
      std::vector<int64_t> all(static_cast<size_t>(world.size()));
      const std::vector<int64_t> one(1, mine), counts(all.size(), 1);
      world.all_gather(const_buffer(one), buffer(all), counts);
      for (const int64_t number : all) ASSERT_EQ(number, mine);
    }
  });
}

TEST(ReadCheckpoint, throws_what_a_damaged_one_gives_without_trying_again) {
  const TemporaryFolder folder;
  save(folder.path(), "a");
  int tries = 0;
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              read_checkpoint(folder.path(), {}, [&](const SavedCheckpoint&) {
                ++tries;
                throw InvalidArgument("model: is torn");
              });
            }),
            "model: is torn");
  EXPECT_EQ(tries, 1);
}

TEST(ReadCheckpoint, reads_again_where_the_same_one_takes_its_place_meanwhile) {
  const TemporaryFolder folder;
  save(folder.path(), "a");
  fs::rename(folder / "checkpoint", folder / "checkpoint.next");
  read_checkpoint(folder.path(), {}, [&](const SavedCheckpoint& saved) {
    if (saved.folder.filename() == "checkpoint.next") fs::rename(saved.folder, folder / "checkpoint");
    expect_part_of(saved);
  });
}

TEST(ReadCheckpoint, refuses_files_of_two_checkpoints_in_one_folder) {
  const TemporaryFolder folder;
  save(folder.path(), "a");
  put(folder / "checkpoint/model", "b");
  EXPECT_EQ(message_of<InvalidArgument>([&] { read_checkpoint(folder.path(), {}, expect_part_of); }), "model is of b");

  const fs::path file = folder / "model.safetensors";
  write_safetensors(file, std::map<std::string, at::Tensor>{}, {{kCheckpointKey, "b"}});
  EXPECT_NO_THROW(check_belongs(SafetensorsFile(file), file, "b"));
  EXPECT_THAT(message_of<OtherCheckpoint>([&] { check_belongs(SafetensorsFile(file), file, "a"); }),
              HasSubstr("model.safetensors: is of another checkpoint than state.json beside it (b, expected a)"));
}

TEST(ReadCheckpoint, says_where_there_is_none) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_of<InvalidArgument>([&] { read_checkpoint(folder.path(), {}, expect_part_of); }),
            folder.path().string() + ": there is no checkpoint to continue from");
}

}  // namespace
}  // namespace adjoin::train
