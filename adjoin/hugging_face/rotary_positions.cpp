#include "adjoin/hugging_face/rotary_positions.hpp"

#include <cstdint>
#include <optional>

#include "adjoin/base/text.hpp"
#include "adjoin/hugging_face/config_values.hpp"

namespace adjoin::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMostTokens = 1 << 30;

double number_of(const Json& object, const char* key, std::optional<double> otherwise = {}) {
  const auto found = object.find(key);
  if ((found == object.end() || found->is_null()) && otherwise) return *otherwise;
  require(found != object.end() && found->is_number(), [&] {
    return "\"" + std::string(key) + "\" of the rotary positions: expected a number, got " +
           (found == object.end() ? "none" : found->dump());
  });
  return found->get<double>();
}

/// What the file says of rotary positions besides "rope_theta".
Json description_in(const Json& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json rope = value_of(config, key, "{}");
    require(rope.is_object(), [&] { return with_value(key, rope) + ": expected an object"; });
    for (const auto& [name, value] : rope.items())
      if (value.is_object()) refuse(key, rope, "the same rotary positions in all layers");
    if (!rope.empty()) return rope;
  }
  return Json::object();
}

/// "rope_type", or its older name "type".
Json type_of(const Json& rope) {
  const Json type = value_of(rope, "rope_type", "null"), older = value_of(rope, "type", "null");
  if (type.is_null()) return older.is_null() ? Json("default") : older;
  if (!older.is_null() && older != type) refuse("type", older, "the same as \"rope_type\", " + type.dump());
  return type;
}

}  // namespace

void read_rotary(const Json& config, Configuration& into) {
  const Json rope = description_in(config), type = type_of(rope);
  into.rotary.base = number_of(rope, "rope_theta", number_of(config, "rope_theta", 10000));
  if (type == "linear" || type == "llama3") {
    into.rotary.scaling = type == "linear" ? nn::RotaryOptions::Scaling::linear : nn::RotaryOptions::Scaling::llama3;
    into.rotary.factor = number_of(rope, "factor");
  } else if (type != "default") {
    refuse("rope_type", type, R"("default", "linear" or "llama3")");
  }
  if (type == "llama3") {
    into.rotary.low_turns = number_of(rope, "low_freq_factor");
    into.rotary.high_turns = number_of(rope, "high_freq_factor");
    constexpr const char* kTrained = "original_max_position_embeddings";
    // transformers prefers the model's own key to that of the rotary positions.
    const Json& holder = value_of(config, kTrained, "null").is_null() ? rope : config;
    const double trained = number_of(holder, kTrained);
    if (!(trained >= 1 && trained <= kMostTokens)) refuse(kTrained, holder[kTrained], "1 to " + shown(kMostTokens));
    into.rotary.trained_tokens = static_cast<int64_t>(trained);
  }
  for (const Json& object : {rope, config})
    if (number_of(object, "partial_rotary_factor", 1) != 1)
      refuse("partial_rotary_factor", object["partial_rotary_factor"], "1");
}

void write_rotary(const Configuration& c, Json& config) {
  config["rope_theta"] = c.rotary.base;
  if (c.rotary.scaling == nn::RotaryOptions::Scaling::none) return;
  Json rope = {{"rope_type", text_of("rotary_scaling", c)}, {"factor", c.rotary.factor}};
  if (c.rotary.scaling == nn::RotaryOptions::Scaling::llama3) {
    rope["low_freq_factor"] = c.rotary.low_turns;
    rope["high_freq_factor"] = c.rotary.high_turns;
    rope["original_max_position_embeddings"] = c.rotary.trained_tokens;
  }
  config["rope_scaling"] = rope;
}

}  // namespace adjoin::train
