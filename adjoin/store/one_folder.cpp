#include "adjoin/store/one_folder.hpp"

#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/store/on_root.hpp"
#include "adjoin/store/output_file.hpp"
#include "adjoin/store/read_checkpoint.hpp"
#include "adjoin/store/read_text.hpp"

namespace adjoin::train {

void check_one_folder(const std::filesystem::path& out, const Communicator& world) {
  if (!started_by_mpi()) return;
  const std::filesystem::path file = out / ".adjoin.shared";
  const std::string name = text_from_rank(0, new_checkpoint_name(), world);
  on_root(world, "writing " + file.string(), [&] { write_atomically(file, name); });
  const std::vector<int64_t> strangers = numbers_of_all(text_or_nothing(file) != name, world);
  on_root(world, "removing " + file.string(), [&] { on_disk([&] { std::filesystem::remove(file); }); });
  for (size_t rank = 0; rank < strangers.size(); ++rank)
    require(strangers[rank] == 0, [&] {
      return "--out " + out.string() + ": rank " + std::to_string(rank) +
             " sees a different folder there than rank 0, or none; it must be the same folder on all ranks";
    });
}

}  // namespace adjoin::train
