#include "adjoin/hugging_face/pretrained.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/data/class_names.hpp"
#include "adjoin/store/fail_alike.hpp"
#include "adjoin/store/read_text.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Returns what `read` returns; its errors name the folder's config.json.
template <class Read>
auto naming_config(const fs::path& folder, const Read& read) {
  const std::string path = (folder / "config.json").string();
  try {
    return read();
  } catch (const nlohmann::json::exception&) {
    throw InvalidArgument(path + ": holds a value of another type than transformers writes");
  } catch (const InvalidArgument& error) {
    const std::string what = error.what();
    throw InvalidArgument(what.starts_with(folder.string()) ? what : path + ": " + what);
  }
}

}  // namespace

bool is_pretrained(const fs::path& folder) {
  const std::string text = text_or_nothing(folder / "config.json");
  const Json config = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return config.is_object() && config.contains("model_type");
}

Json read_config(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  const Json config = Json::parse(read_text(path), nullptr, /*allow_exceptions=*/false);
  require(config.is_object(), [&] { return path.string() + ": this is not a JSON object"; });
  return config;
}

Configuration read_pretrained(const fs::path& folder) {
  const Json config = read_config(folder);
  const fs::path adapter = folder / "adapter_config.json";  // transformers applies it to the weights
  require(!fs::exists(adapter), [&] {
    return adapter.string() +
           ": adapters are not supported; in Python, merge_and_unload of peft puts one into the weights";
  });
  return naming_config(folder, [&] {
    const Family& family = family_of(config);
    Configuration configuration = configuration_of(recipe_of(family.model));
    configuration.from = folder.string();
    read_model(family, config, configuration);
    configuration.vocabulary_size = std::max<int64_t>(64, configuration.words);  // for made-up tokens
    require(configuration.context >= 2,
            [&] { return limit_of_tokens(family, config) + ": expected room for 2 tokens or more"; });
    configuration.sequence = std::min(configuration.sequence, configuration.context);
    try {
      validate(configuration);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(in_words_of(family, error.what()));
    }
    check_sizes(family, open_weight_files(folder), configuration);
    return configuration;
  });
}

std::vector<std::string> read_pretrained_classes(const fs::path& folder) {
  const Json config = read_config(folder);
  return naming_config(folder, [&] { return data::ClassNames(read_class_names(config)).names(); });
}

FamilyWeights find_pretrained_weights(const fs::path& folder,
                                      const std::map<std::string, std::vector<int64_t>>& shapes) {
  const Family& family = family_of(read_config(folder));
  const WeightFiles files = open_weight_files(folder);
  try {
    return find_weights(family, files, shapes);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(folder.string() + ": " + error.what());
  }
}

namespace {

class PretrainedFolder final : public ModelFolder {
 public:
  using ModelFolder::ModelFolder;

  Configuration configuration(const fs::path&) const override {
    constexpr int64_t kLongest = 2048;  // for texts in an evaluation
    Configuration configuration = read_pretrained(path());
    configuration.sequence = std::clamp<int64_t>(configuration.context, 2, kLongest);
    return configuration;
  }
  Configuration beginning() const override { return read_pretrained(path()); }
  std::string limit_of_tokens() const override {
    const Json config = read_config(path());
    return (path() / "config.json").string() + " has " + train::limit_of_tokens(family_of(config), config);
  }
  fs::path tokenizer(const fs::path& place, std::initializer_list<const char*>) const override { return place; }
  data::ClassNames classes(const fs::path& place) const override {
    return data::ClassNames(read_pretrained_classes(place));
  }

  void find_weights(const fs::path&, const std::vector<nn::Parameter>& parameters) override {
    std::map<std::string, std::vector<int64_t>> shapes;
    for (const nn::Parameter& parameter : parameters) shapes.emplace(parameter.name, parameter.layout.shape());
    weights_ = find_pretrained_weights(path(), shapes);
  }
  void check_whole(const Configuration& configuration) const override {
    require(weights_.lacking.empty(), [&] {
      return path().string() + ": lacks the weights of a classifier; adjoin train --from " + path().string() +
             " trains one";
    });
    require(configuration.is_decoder() || read_pretrained_classes(path()).size() > 1, [&] {
      return (path() / "config.json").string() +
             ": \"id2label\" names one class, by which transformers means a regression, which is not supported";
    });
  }
  std::vector<std::string> lacking() const override { return weights_.lacking; }
  std::vector<std::string> left_out() const override { return weights_.left_out; }
  void read_weights(const Communicator& world, const std::vector<nn::Parameter>& parameters) const override {
    const at::NoGradGuard no_gradient;
    fail_alike(world, [&] {
      for (const nn::Parameter& piece : parameters) {
        const StackedTensor& tensor = weights_.tensors.at(piece.name);
        read_piece(tensor, piece);
        require(at::isfinite(piece.tensor).all().item<bool>(), [&] {
          std::vector<std::string> theirs;
          for (const StackedTensor::Part& part : tensor.parts) theirs.push_back(part.name);
          return path().string() + ": tensor '" + joined(theirs, "' or '") + "' holds numbers that are not finite";
        });
      }
    });
  }
  std::map<std::string, StackedTensor> weights() const override { return weights_.tensors; }

 private:
  FamilyWeights weights_;
};

}  // namespace

std::unique_ptr<ModelFolder> model_folder(const CheckpointChoice& choice) {
  if (!is_pretrained(choice.run)) return run_folder(choice);
  require(choice.step == 0, [&] {
    return "--step " + std::to_string(choice.step) + ": chooses a checkpoint of a run, but " + choice.run.string() +
           " is a folder of transformers, which has no checkpoints";
  });
  return std::make_unique<PretrainedFolder>(choice.run);
}

}  // namespace adjoin::train
