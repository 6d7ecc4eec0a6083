#include "adjoin/task/model_folder.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "adjoin/base/error.hpp"
#include "adjoin/store/checkpoint.hpp"
#include "adjoin/store/checkpoint_folders.hpp"
#include "adjoin/store/read_text.hpp"
#include "adjoin/store/state_sums.hpp"
#include "adjoin/task/configuration_file.hpp"
#include "adjoin/task/task.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;

class RunFolder final : public ModelFolder {
 public:
  explicit RunFolder(const CheckpointChoice& choice)
      : ModelFolder(choice.run), choice_(choice), is_finished_(choice.step == 0 && fs::exists(path() / kWeightsFile)) {}

  void read(const std::function<void(const fs::path&)>& use) const override {
    require(fs::exists(path()), [&] { return path().string() + ": there is no such folder"; });
    require(fs::is_directory(path()), [&] { return path().string() + ": is not a folder"; });
    const bool has_config = fs::exists(path() / "config.json");
    require(has_checkpoint(path()) || (has_config && fs::exists(path() / kWeightsFile)), [&] {
      return path().string() + ": holds no model, as there is no " + (has_config ? kWeightsFile : "config.json") +
             "; expected the output folder of adjoin train, or a folder that transformers' save_pretrained wrote";
    });
    if (is_finished_) return use(path());
    read_checkpoint(choice_, {}, [&](const SavedCheckpoint& checkpoint) { use(checkpoint.folder); });
  }
  Configuration configuration(const fs::path& place) const override {
    return read_configuration(place / "config.json");
  }

  Configuration beginning() const override {
    Configuration saved;
    read([&](const fs::path& place) { saved = configuration(place); });
    check_known(saved, "--from " + path().string());
    Configuration configuration = configuration_of(recipe_of(saved.model));
    for (const Field& field : fields())
      if (field.group == "Model" && field.name != "preset" && field.name != "sequence")
        std::visit([&](auto member) { member(configuration) = member(saved); }, field.member);
    if (saved.is_decoder() || saved.positions == models::TransformerOptions::Positions::learned) {
      configuration.context = saved.context == 0 ? saved.sequence : saved.context;
      configuration.sequence = std::min(configuration.sequence, configuration.context);
    }
    configuration.from = path().string();
    return configuration;
  }
  std::string limit_of_tokens() const override {
    return path().string() + " has positions for " + std::to_string(beginning().context) + " tokens";
  }

  fs::path tokenizer(const fs::path& place, std::initializer_list<const char*> names) const override {
    const auto* found =
        std::ranges::find_if(names, [&](const char* name) { return fs::is_regular_file(place / name); });
    return place / (found == names.end() ? *(names.end() - 1) : *found);
  }
  /// If the file is missing, the model was saved when there were only two classes, negative and positive.
  data::ClassNames classes(const fs::path& place) const override {
    const fs::path file = place / kClassesFile;
    if (!fs::exists(file)) {
      require(fs::exists(place), [&] { return file.string() + ": the folder is gone"; });
      return {};
    }
    try {
      return data::ClassNames(nlohmann::json::parse(read_text(file)).get<std::vector<std::string>>());
    } catch (const nlohmann::json::exception&) {
      throw InvalidArgument(file.string() + ": this is not a list of names");
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(file.string() + ": " + error.what());
    }
  }

  void find_weights(const fs::path& place, const std::vector<nn::Parameter>& parameters) override {
    check_state(place / kWeightsFile, parameters);
  }
  void read_weights(const Communicator& world, const std::vector<nn::Parameter>& parameters) const override {
    if (is_finished_) return load_state(path() / kWeightsFile, parameters, {.may_hold_more = true});
    read_checkpoint(choice_, world, [&](const SavedCheckpoint& checkpoint) {
      load_state(checkpoint.folder / kWeightsFile, parameters, {.checkpoint = checkpoint.name, .may_hold_more = true});
    });
  }
  std::map<std::string, StackedTensor> weights() const override {
    std::map<std::string, StackedTensor> tensors;
    read([&](const fs::path& place) {
      const auto file = std::make_shared<const SafetensorsFile>(place / kWeightsFile);
      verify_sums(*file, place / kWeightsFile);
      tensors.clear();
      for (const auto& [name, shape] : file->shapes()) tensors.emplace(name, StackedTensor{{{file, name}}});
    });
    return tensors;
  }

 private:
  CheckpointChoice choice_;
  bool is_finished_;
};

}  // namespace

std::unique_ptr<ModelFolder> run_folder(const CheckpointChoice& choice) {
  return std::make_unique<RunFolder>(choice);
}

}  // namespace adjoin::train
