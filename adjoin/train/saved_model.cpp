#include "adjoin/train/saved_model.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "adjoin/base/error.hpp"
#include "adjoin/train/checkpoint.hpp"
#include "adjoin/train/output_file.hpp"

namespace adjoin::train {
namespace {

Configuration read_configuration(const std::filesystem::path& path) {
  try {
    return configuration_from_json(nlohmann::ordered_json::parse(read_text(path)));
  } catch (const nlohmann::json::exception&) {
    throw InvalidArgument(path.string() + ": this is not JSON");
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(path.string() + ": " + error.what());
  }
}

}  // namespace

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  require(file.good() || file.eof(), [&] { return path.string() + ": the file cannot be read"; });
  return text.str();
}

void save_model(const std::filesystem::path& folder, const Configuration& configuration,
                const data::WordPiece& tokenizer, const torch::nn::Module& model, const Grid& grid) {
  save_weights(folder / "model.safetensors", model, grid);
  if (grid.cell() != 0) return;
  tokenizer.save((folder / "vocab.txt").string());
  write_atomically(folder / "config.json", to_json(configuration).dump(2) + "\n");
}

SavedModel open_model(const std::filesystem::path& folder) {
  require(std::filesystem::is_directory(folder), [&] { return folder.string() + ": there is no such folder"; });
  const std::filesystem::path checkpoint = folder / "checkpoint";
  const bool finished = std::filesystem::exists(folder / "model.safetensors");
  const std::filesystem::path place = finished || !std::filesystem::exists(checkpoint) ? folder : checkpoint;
  return {read_configuration(place / "config.json"), data::WordPiece::load((place / "vocab.txt").string()),
          place / "model.safetensors"};
}

}  // namespace adjoin::train
