#include "adjoin/store/read_checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <optional>
#include <thread>

#include "adjoin/base/error.hpp"
#include "adjoin/store/checkpoint_folders.hpp"
#include "adjoin/store/fail_alike.hpp"
#include "adjoin/store/read_text.hpp"
#include "adjoin/store/safetensors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;
using adjoin::testing::for_each_world;
using test::message_of;
using test::put;
using test::TemporaryFolder;
using ::testing::HasSubstr;

void save(const fs::path& run, const std::string& name, int64_t step = 1, int64_t keep = 9) {
  begin_checkpoint(run, step);
  put(fresh_checkpoint(run, step) / "model", name);
  put(fresh_checkpoint(run, step) / kStateFile, "{\"checkpoint\": \"" + name + "\"}");
  publish_checkpoint(run, step, keep);
}

/// What load_state does: reads a file, and refuses one of another checkpoint.
void expect_part_of(const SavedCheckpoint& saved) {
  const std::string found = read_text(saved.folder / "model");
  if (found != saved.name) throw DamagedFile("model is of " + found);
}

/// The names of the checkpoints that are read, and what the last reading throws, where any whose name is in `damaged` is refused.
std::string read_names(const CheckpointChoice& choice, const std::string& damaged) {
  std::string names;
  const std::string thrown = message_of<InvalidArgument>([&] {
    read_checkpoint(choice, {}, [&](const SavedCheckpoint& saved) {
      names += saved.name;
      if (damaged.find(saved.name) != damaged.npos) throw DamagedFile("damage in " + saved.name);
    });
  });
  return names + (thrown.empty() ? "" : ": " + thrown);
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
          save(run, std::to_string(i), /*step=*/i / 2 + 1, /*keep=*/2);  // each step twice
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
      });
    const struct Stop {  // also where a reader throws, or the writer would be waited for without end
      std::atomic<bool>& ends;
      ~Stop() { ends = true; }
    } stop{ends};
    for (int i = 0; i < 50; ++i) {
      int64_t mine = 0;
      read_checkpoint({run}, world, [&](const SavedCheckpoint& saved) {
        fail_alike(world, [&] { expect_part_of(saved); });
        mine = std::stoi(saved.name);
      });
      std::vector<int64_t> all(static_cast<size_t>(world.size()));
      const std::vector<int64_t> one(1, mine), counts(all.size(), 1);
      world.all_gather(const_buffer(one), buffer(all), counts);
      for (const int64_t number : all) ASSERT_EQ(number, mine);
    }
  });
}

TEST(ReadCheckpoint, passes_over_what_is_damaged_and_warns_of_it_once) {
  const TemporaryFolder folder;
  save(folder.path(), "a", 1), save(folder.path(), "b", 20), save(folder.path(), "c", 3);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(read_names({folder.path()}, ""), "b");
  EXPECT_EQ(read_names({folder.path()}, "b"), "bc");
  EXPECT_EQ(read_names({folder.path()}, "b"), "bc");
  const std::string in = folder.path().string() + "/checkpoints/step-";
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "adjoin: warning: damage in b; " + in + "3 is read instead\n");
  EXPECT_EQ(read_names({folder.path()}, "bca"), "bca: damage in a; no other checkpoint is whole");
}

TEST(ReadCheckpoint, reads_that_of_a_step_alone_and_lists_them_where_there_is_none) {
  const TemporaryFolder folder;
  save(folder.path(), "a", 1), save(folder.path(), "b", 20), save(folder.path(), "c", 3);
  EXPECT_EQ(read_names({folder.path(), 3}, ""), "c");
  EXPECT_EQ(read_names({folder.path(), 3}, "c"), "c: damage in c");
  EXPECT_EQ(read_names({folder.path(), 4}, ""),
            ": --step 4: " + folder.path().string() + " has no such checkpoint; it has 20, 3, 1");
}

TEST(ReadCheckpoint, does_not_try_another_where_the_fault_is_not_the_checkpoints) {
  const TemporaryFolder folder;
  save(folder.path(), "a", 1), save(folder.path(), "b", 2);
  int tries = 0;
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              read_checkpoint({folder.path()}, {}, [&](const SavedCheckpoint&) {
                ++tries;
                throw InvalidArgument("of another model");
              });
            }),
            "of another model");
  EXPECT_EQ(tries, 1);
}

TEST(ReadCheckpoint, looks_again_where_one_takes_another_place_or_is_removed_meanwhile) {
  const TemporaryFolder folder;
  save(folder.path(), "a");
  fs::rename(folder / "checkpoints/step-1", folder / "checkpoints/step-1.new");
  read_checkpoint({folder.path()}, {}, [&](const SavedCheckpoint& saved) {
    if (saved.folder.filename() == "step-1.new") fs::rename(saved.folder, folder / "checkpoints/step-1");
    if (saved.folder.filename() == "step-1") save(folder.path(), "b", 2, /*keep=*/1);
    try {
      expect_part_of(saved);
    } catch (const InvalidArgument& error) {
      throw DamagedFile(error.what());
    }
    EXPECT_EQ(saved.name, "b");
  });
}

TEST(ReadCheckpoint, refuses_files_of_two_checkpoints_in_one_folder) {
  const TemporaryFolder folder;
  save(folder.path(), "a");
  put(folder / "checkpoints/step-1/model", "b");
  EXPECT_EQ(message_of<InvalidArgument>([&] { read_checkpoint({folder.path()}, {}, expect_part_of); }),
            "model is of b");

  const fs::path file = folder / "model.safetensors";
  write_safetensors(file, std::map<std::string, at::Tensor>{}, {{kCheckpointKey, "b"}});
  EXPECT_NO_THROW(check_belongs(SafetensorsFile(file), file, "b"));
  EXPECT_THAT(
      message_of<DamagedFile>([&] { check_belongs(SafetensorsFile(file), file, "a"); }),
      HasSubstr("model.safetensors: belongs to a different checkpoint than state.json beside it (b, expected a)"));
}

TEST(ReadCheckpoint, says_where_there_is_none) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_of<InvalidArgument>([&] { read_checkpoint({folder.path()}, {}, expect_part_of); }),
            folder.path().string() + ": there is no checkpoint to continue from");
}

TEST(Together, throws_on_all_what_one_of_them_threw_damage_first) {
  for_each_world({1, 2, 4}, [](const Communicator& world) {
    EXPECT_NO_THROW(fail_alike(world, [] {}));
    const int last = world.size() - 1;
    EXPECT_EQ(message_of<IoError>([&] {
                fail_alike(world, [&] {
                  if (world.rank() == last) throw IoError("rank " + std::to_string(last));
                });
              }),
              "rank " + std::to_string(last));
    EXPECT_EQ(message_of<DamagedFile>([&] {
                fail_alike(world, [&] {
                  if (world.rank() == last) throw DamagedFile("damage");
                  throw InvalidArgument("other");
                });
              }),
              "damage");
  });
}

}  // namespace
}  // namespace adjoin::train
