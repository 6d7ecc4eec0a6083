#include "adjoin/train/saved_model.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "adjoin/base/error.hpp"
#include "adjoin/train/checkpoint.hpp"
#include "adjoin/train/output_file.hpp"
#include "adjoin/train/output_folder.hpp"

namespace adjoin::train {
namespace {

Configuration read_configuration(const std::filesystem::path& path) {
  try {
    const Configuration configuration = configuration_from_json(nlohmann::ordered_json::parse(read_text(path)));
    validate(configuration);
    return configuration;
  } catch (const nlohmann::json::exception&) {
    throw InvalidArgument(path.string() + ": this is not JSON");
  } catch (const InvalidArgument& error) {
    const std::string what = error.what();
    throw InvalidArgument(what.starts_with(path.string()) ? what : path.string() + ": " + what);
  }
}

std::string lines_of(const data::WordPiece& tokenizer) {
  std::string lines;
  for (int64_t id = 0; id < tokenizer.size(); ++id) lines += tokenizer.piece(id) + '\n';
  return lines;
}

}  // namespace

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), [&] { return path.string() + ": the file cannot be opened"; });
  std::ostringstream text;
  text << file.rdbuf();
  require(file.good() || file.eof(), [&] { return path.string() + ": the file cannot be read"; });
  return text.str();
}

void save_model(const std::filesystem::path& folder, const Configuration& configuration,
                const data::WordPiece& tokenizer, const torch::nn::Module& model, const Grid& grid) {
  if (grid.cell() == 0) {
    write_atomically(folder / "vocab.txt", lines_of(tokenizer));
    write_atomically(folder / "config.json", to_json(configuration).dump(2) + "\n");
  }
  save_weights(folder / "model.safetensors", model, grid);  // last: where it stands, the others do
}

SavedModel open_model(const std::filesystem::path& folder) {
  require(std::filesystem::is_directory(folder), [&] { return folder.string() + ": there is no such folder"; });
  const bool finished = std::filesystem::exists(folder / "model.safetensors");
  const auto checkpoint = find_replaced(folder, "checkpoint");
  require(finished || checkpoint, [&] {
    return folder.string() + ": there is no model; expected model.safetensors or a checkpoint, as adjoin train writes";
  });
  const std::filesystem::path place = finished ? folder : *checkpoint;
  SavedModel saved{read_configuration(place / "config.json"), data::WordPiece::load((place / "vocab.txt").string()),
                   place / "model.safetensors"};
  check_weights(saved.weights, saved.configuration, saved.tokenizer.size());
  return saved;
}

void check_weights(const std::filesystem::path& path, const Configuration& configuration, int64_t words) {
  models::TextClassifierOptions options = model_options(configuration, words);
  options.tensor = options.tensor.device(at::kMeta);
  const Grid one_worker(Communicator(), GridShape({{"tp", 1}}));
  check_weights(path, *models::TextClassifier(options, one_worker, "tp"));
}

Trainer load_trainer(const SavedModel& saved, const Configuration& configuration, const Communicator& world) {
  Trainer trainer(configuration, world, saved.tokenizer.size(), saved.tokenizer.padding_id());
  load_weights(saved.weights, *trainer.model());
  return trainer;
}

std::filesystem::path checkpoint_of(const std::filesystem::path& folder) {
  const auto checkpoint = find_replaced(folder, "checkpoint");
  require(checkpoint.has_value(), [&] { return folder.string() + ": there is no checkpoint to continue from"; });
  return *checkpoint;
}

Configuration configuration_to_resume(const std::string& folder) {
  Configuration configuration = read_configuration(checkpoint_of(folder) / "config.json");
  configuration.resume = configuration.out = folder;
  return configuration;
}

}  // namespace adjoin::train
