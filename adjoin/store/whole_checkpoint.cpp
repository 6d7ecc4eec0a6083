#include "adjoin/store/whole_checkpoint.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/store/output_file.hpp"
#include "adjoin/store/read_text.hpp"
#include "adjoin/store/safetensors.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char *kFiles = "files", *kSeal = "checksum";

std::string hash_text(const std::string& content) {
  return hexadecimal(hash_of(content));
}

/// "" for a file with tensors, which has its own checksums.
std::string checksum_of(const fs::path& file) {
  return file.extension() == ".safetensors" ? "" : hash_text(read_text(file));
}

void check_file(const fs::path& file, const ordered_json& checksum) {
  if (!fs::is_regular_file(file)) throw DamagedFile(file.string() + ": is missing");
  if (checksum != ordered_json(checksum_of(file)))
    throw DamagedFile(file.string() + ": is damaged: it does not match its checksum in " + kStateFile);
}

}  // namespace

std::string sealed_state(ordered_json state, const fs::path& folder) {
  std::set<std::string> names;
  on_disk([&] {
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  });
  ordered_json& files = state[kFiles] = ordered_json::object();
  for (const std::string& name : names) files[name] = checksum_of(folder / name);
  state[kSeal] = hash_text(state.dump());
  return state.dump(2) + "\n";
}

void check_whole(const CheckpointFolder& checkpoint, const std::string& text) {
  const fs::path path = checkpoint.path / kStateFile;
  if (text.empty()) throw DamagedFile(path.string() + ": is missing or empty");
  ordered_json state = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!state.is_object()) throw DamagedFile(path.string() + ": this is not the state of a training run");
  if (!state.contains(kSeal) && !state.contains(kFiles)) return;  // from an earlier version
  const ordered_json seal = state.value(kSeal, ordered_json()), files = state.value(kFiles, ordered_json());
  state.erase(kSeal);
  if (seal != ordered_json(hash_text(state.dump())) || !files.is_object())
    throw DamagedFile(path.string() + ": is damaged: it does not match its checksum");
  if (state.value("step", ordered_json()) != ordered_json(checkpoint.step))
    throw DamagedFile(path.string() + ": has a different step than the name of its folder");
  try {
    for (const auto& [name, checksum] : files.items()) check_file(checkpoint.path / name, checksum);
  } catch (const DamagedFile&) {
    throw;
  } catch (const InvalidArgument& error) {  // a file cannot be read
    throw DamagedFile(error.what());
  }
}

}  // namespace adjoin::train
