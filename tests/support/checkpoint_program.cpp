// Saves FOLDER/checkpoints/step-S as training does, of steps FIRST to LAST, of which two stay, and LAST once more:
// checkpoint_program FOLDER FIRST LAST. The tests kill it between any two operations on files.

#include <cstdlib>
#include <string>

#include "adjoin/store/checkpoint_folders.hpp"
#include "adjoin/store/output_file.hpp"
#include "adjoin/store/output_folder.hpp"

namespace {

using namespace adjoin::train;

void save(const std::filesystem::path& run, int64_t step) {
  begin_checkpoint(run, step);
  const std::filesystem::path fresh = fresh_checkpoint(run, step);
  const std::string content = std::to_string(step);
  {
    OutputFile model(fresh / "model");
    model.reserve(std::ssize(content));
  }
  {
    OutputFile model(fresh / "model", OutputFile::Mode::fill);
    model.write_at(content.data(), content.size(), 0);
    model.sync();
  }
  sync_to_disk(fresh);
  write_atomically(fresh / kStateFile, "{\"step\": " + content + "}");
  publish_checkpoint(run, step, /*keep=*/2);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 64;
  const OutputFolder out(argv[1]);
  const int64_t first = std::atoi(argv[2]), last = std::atoi(argv[3]);
  recover_checkpoints(out.path());
  for (int64_t step = first; step <= last; ++step) save(out.path(), step);
  save(out.path(), last);
  return 0;
}
