// Replaces FOLDER/checkpoint as training does, by generations FIRST to LAST: checkpoint_program FOLDER FIRST LAST. The
// tests kill it between any two operations on files.

#include <cstdlib>
#include <string>

#include "adjoin/train/storage/folder_replacement.hpp"
#include "adjoin/train/storage/output_file.hpp"
#include "adjoin/train/storage/output_folder.hpp"

int main(int argc, char** argv) {
  if (argc != 4) return 64;
  using namespace adjoin::train;
  const OutputFolder out(argv[1]);
  for (int generation = std::atoi(argv[2]); generation <= std::atoi(argv[3]); ++generation) {
    FolderReplacement fresh(out.path(), "checkpoint");
    for (const char* name : {"model", "state"}) write_atomically(fresh.folder() / name, std::to_string(generation));
    fresh.publish();
  }
  return 0;
}
