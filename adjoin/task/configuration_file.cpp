#include "adjoin/task/configuration_file.hpp"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/store/read_text.hpp"
#include "adjoin/store/safetensors.hpp"

namespace adjoin::train {

std::string schedule_beside(const std::filesystem::path& config, const std::string& pipeline) {
  return pipeline == kKeptSchedule ? (config.parent_path() / kKeptSchedule).string() : pipeline;
}

Configuration read_configuration(const std::filesystem::path& path) {
  try {
    std::string text;
    try {
      text = read_text(path);
    } catch (const InvalidArgument& error) {
      throw DamagedFile(error.what());
    }
    const auto json = nlohmann::ordered_json::parse(text);
    require(!json.is_object() || json.contains("model") || json.contains("task"),
            "the configuration does not name its model: it has neither \"model\", as adjoin train writes, nor "
            "\"model_type\", as transformers does");
    Configuration configuration = configuration_from_json(json);
    configuration.pipeline = schedule_beside(path, configuration.pipeline);
    validate(configuration);
    return configuration;
  } catch (const nlohmann::json::exception&) {
    throw DamagedFile(path.string() + ": this is not JSON");
  } catch (const DamagedFile&) {
    throw;
  } catch (const InvalidArgument& error) {
    const std::string what = error.what();
    throw InvalidArgument(what.starts_with(path.string()) ? what : path.string() + ": " + what);
  }
}

Configuration with_absolute_paths(Configuration c) {
  const auto make_absolute = [](std::string& path, std::initializer_list<std::string_view> words) {
    if (!path.empty() && std::ranges::find(words, path) == words.end()) path = std::filesystem::absolute(path).string();
  };
  if (!c.task.empty() && !c.has_program()) return c;
  for (std::string* texts : {&c.data, &c.test}) make_absolute(*texts, {"sample"});
  make_absolute(c.vocab, {"bytes", "subword"});
  make_absolute(c.from, {});
  make_absolute(c.program, {});
  return c;
}

}  // namespace adjoin::train
