#include "adjoin/hugging_face/pretrained.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/data/class_names.hpp"
#include "adjoin/store/read_checkpoint.hpp"
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

std::string_view recipe_of(std::string_view model) {
  return model == "decoder" ? "fine-tune-gpt" : "fine-tune";
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

std::string limit_of_tokens(const fs::path& folder) {
  const Json config = read_config(folder);
  return (folder / "config.json").string() + " has " + limit_of_tokens(family_of(config), config);
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

void read_model_folder(const fs::path& folder, const std::function<void(const fs::path&)>& use) {
  if (is_pretrained(folder) || fs::exists(folder / "model.safetensors")) return use(folder);
  read_checkpoint({folder, 0}, {}, [&](const SavedCheckpoint& checkpoint) { use(checkpoint.folder); });
}

}  // namespace adjoin::train
