#include "adjoin/hugging_face/family.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <variant>

#include "adjoin/base/text.hpp"
#include "adjoin/hugging_face/config_values.hpp"
#include "adjoin/hugging_face/rotary_positions.hpp"
#include "adjoin/task/transformer_options.hpp"

namespace adjoin::train {
namespace {

using Json = nlohmann::ordered_json;

bool is_size(const Json& value) {
  return value.is_number_integer() && value >= 1 && value <= INT64_MAX;
}

/// Sets a field to a value of its own type.
void assign(const Field& field, std::string_view key, const Json& value, Configuration& into) {
  std::visit(
      [&](auto member) {
        using Value = typename decltype(member)::Value;
        constexpr bool is_number = std::is_same_v<Value, double>, is_truth = std::is_same_v<Value, bool>;
        const bool fits = is_number  ? value.is_number()
                          : is_truth ? value.is_boolean()
                                     : std::is_same_v<Value, int64_t> && value.is_number_integer();
        require(fits && (is_number ? value.get<double>() >= 0 : is_size(value) || is_truth), [&] {
          return with_value(key, value) + ": expected " +
                 (is_number  ? "a number of 0 or more"
                  : is_truth ? "true or false"
                             : "an integer of 1 or more");
        });
        if constexpr (is_number || is_truth || std::is_same_v<Value, int64_t>) value.get_to(member(into));
      },
      field.member);
}

/// The name by which a config.json gives a key.
std::string_view name_in(const Json& config, const FamilyKey& key) {
  const bool has_alias = !key.alias.empty() && !value_of(config, key.alias, "null").is_null();
  return has_alias ? key.alias : key.theirs;
}

void read_key(const FamilyKey& key, const Json& config, Configuration& into) {
  const std::string_view name = name_in(config, key);
  const Json value = value_of(config, name, key.standard);
  const bool has_as_many_key_heads = key.ours == "key_heads" && config.contains(name) && config[name].is_null();
  if (value.is_null() || has_as_many_key_heads) return;
  const Field& field = field_named(key.ours);
  if (key.values.empty()) return assign(field, name, value, into);
  std::vector<std::string> known;
  for (const auto& [theirs, ours] : key.values) {
    if (Json::parse(theirs) == value) return set(field, ours, into);
    known.emplace_back(theirs);
  }
  refuse(name, value, joined(known, " or "));
}

/// The names that transformers gives to classes without names.
std::vector<std::string> numbered_classes(const Json& count) {
  constexpr int64_t kMost = 1'000'000;
  require(is_size(count) && count <= kMost,
          [&] { return with_value("num_labels", count) + ": expected an integer from 1 to " + std::to_string(kMost); });
  std::vector<std::string> names;
  for (int64_t id = 0; id < count.get<int64_t>(); ++id) names.push_back("LABEL_" + std::to_string(id));
  return names;
}

/// The kinds of attention of a decoder's layers; null where the file does not list them.
Json kinds_of_layers(const Json& config) {
  const Json kinds = value_of(config, "layer_types", "null");
  const auto is_known = [](const Json& kind) { return kind == "full_attention" || kind == "sliding_attention"; };
  if (!kinds.is_null() && !(kinds.is_array() && std::ranges::all_of(kinds, is_known)))
    refuse("layer_types", kinds, R"("full_attention" or "sliding_attention" for each layer)");
  return kinds;
}

/// For a family with a switch: whether any of a model's layers has a window.
bool has_sliding_layers(const Json& config) {
  if (const Json kinds = kinds_of_layers(config); !kinds.is_null())
    return std::ranges::find(kinds, Json("sliding_attention")) != kinds.end();
  const Json first = value_of(config, "max_window_layers", "28");
  require(first.is_number_integer(), [&] { return with_value("max_window_layers", first) + ": expected an integer"; });
  const Json layers = value_of(config, "num_hidden_layers", "32");
  return layers > first;
}

/// The window within which the tokens of a decoder attend to each other; null if there is none.
Json window_of(const Family& family, const Json& config) {
  if (family.model != ModelKind::decoder) return nullptr;
  kinds_of_layers(config);
  if (family.window == Window::by_switch) {
    const Json uses = value_of(config, "use_sliding_window", "false");
    require(uses.is_boolean(), [&] { return with_value("use_sliding_window", uses) + ": expected true or false"; });
    if (!uses.get<bool>() || !has_sliding_layers(config)) return nullptr;
  }
  const bool has_one = family.window != Window::by_key;
  const Json window = config.contains("sliding_window") ? config["sliding_window"] : has_one ? Json(4096) : Json();
  require(window.is_null() || (is_size(window) && window >= 2),
          [&] { return with_value("sliding_window", window) + ": expected an integer of 2 or more"; });
  if (!family.is_rotary && !window.is_null()) refuse("sliding_window", window, "null");  // its table has all positions
  return window;
}

/// Refuses what changes results in transformers, each key with its only value, as JSON, that is supported.
void check_keys(const std::vector<std::pair<std::string_view, std::string_view>>& supported, const Json& config) {
  for (const auto& [key, value] : supported) {
    const Json found = value_of(config, key, value);
    if (found != Json::parse(value)) refuse(key, found, std::string(value));
  }
}

/// The family's value for the value of a field.
Json theirs(const FamilyKey& key, const Configuration& c) {
  const Field& field = field_named(key.ours);
  for (const auto& [of_theirs, ours] : key.values)
    if (ours == text_of(field, c)) return Json::parse(of_theirs);
  return std::visit(
      [&](auto member) -> Json {
        if constexpr (std::is_same_v<decltype(member), Access<uint8_t>>)
          return text_of(field, c);
        else
          return member(c);
      },
      field.member);
}

bool is_of_training(const Field& field) {
  constexpr std::string_view kOthers[] = {"preset", "from", "model", "vocabulary_size", "sequence", "words"};
  return field.group != "Model" || field.name.ends_with("dropout") ||
         std::ranges::find(kOthers, field.name) != std::end(kOthers);
}

}  // namespace

const Family& family_of(const Json& config) {
  require(config.is_object(), "this is not a JSON object");
  const Json type = value_of(config, "model_type", "null");
  std::vector<std::string> known;
  for (const Family& family : families()) {
    if (type == family.model_type) return family;
    known.emplace_back(family.model_type);
  }
  throw InvalidArgument("\"model_type\": " + type.dump() + " is not known; known are " + joined(known, ", "));
}

void read_model(const Family& family, const Json& config, Configuration& into) {
  if (const Json quantized = value_of(config, "quantization_config", "null"); !quantized.is_null())
    throw InvalidArgument("\"quantization_config\" is not supported: weights must be floating-point numbers");
  check_keys({{"configuration_files", "null"},   // files to be read instead of this one
              {"transformers_weights", "null"},  // a file of weights by another name
              {"is_encoder_decoder", "false"},
              {"per_layer_config", "{}"},
              {"pruned_heads", "{}"}},
             config);
  if (family.model == ModelKind::decoder)
    check_keys({{"is_causal", "true"},
                {"attention_chunk_size", "null"},
                {"kv_sharing_modes", "null"},
                {"num_kv_shared_layers", "0"}},
               config);
  check_keys(family.supported, config);
  into.model = family.model;
  for (const auto& [field, value] : family.fixed) set(field, value, into);
  for (const FamilyKey& key : family.keys) read_key(key, config, into);
  if (family.is_rotary) read_rotary(config, into);
  // Texts are never longer than a window.
  if (const Json window = window_of(family, config); !window.is_null())
    into.context = std::min(into.context, window.get<int64_t>());
}

std::string limit_of_tokens(const Family& family, const Json& config) {
  const auto key = std::ranges::find(family.keys, "context", &FamilyKey::ours);
  const std::string_view name = name_in(config, *key);
  const Json context = value_of(config, name, key->standard), window = window_of(family, config);
  return !window.is_null() && window < context ? with_value("sliding_window", window) : with_value(name, context);
}

std::string in_words_of(const Family& family, std::string text) {
  std::vector<std::pair<std::string, std::string>> words;
  for (const FamilyKey& key : family.keys) words.emplace_back(option_of(key.ours), key.theirs);
  for (const auto& [ours, theirs] : {std::pair("--rotary-base", "rope_theta"),
                                     {"--rotary-factor", "factor"},
                                     {"--rotary-low-turns", "low_freq_factor"},
                                     {"--rotary-high-turns", "high_freq_factor"},
                                     {"--rotary-trained", "original_max_position_embeddings"}})
    words.emplace_back(ours, theirs);
  for (const auto& [ours, theirs] : words)
    for (size_t place = text.find(ours + " "); place != text.npos; place = text.find(ours + " ", place))
      text.replace(place, ours.size(), '"' + theirs + '"');
  return text;
}

std::vector<std::string> read_class_names(const Json& config) {
  const Json labels = value_of(config, "id2label", "null");
  if (labels.is_null()) return numbered_classes(value_of(config, "num_labels", "2"));
  require(labels.is_object() && !labels.empty(), "\"id2label\": expected an object that names each class");
  std::vector<std::string> names(labels.size());
  for (const auto& [id, name] : labels.items()) {
    size_t place = 0;
    const auto [stopped, error] = std::from_chars(id.data(), id.data() + id.size(), place);
    const bool is_whole = error == std::errc() && std::to_string(place) == id;
    require(is_whole && place < names.size() && name.is_string(), [&] {
      return "\"id2label\": expected a name for each id from 0 to " + std::to_string(names.size() - 1) + ", got " +
             Json(id).dump() + ": " + name.dump();
    });
    names[place] = name.get<std::string>();
  }
  return names;
}

Json to_config(const Family& family, const Configuration& c, int64_t words, const std::vector<std::string>& classes) {
  Json config = {{"architectures", {family.architecture}}, {"model_type", family.model_type}};
  Configuration completed = c;  // its sizes are set explicitly
  const models::TransformerOptions sizes = transformer_options(c, words);
  completed.words = words;
  completed.inner = sizes.inner_features();
  completed.context = context_of(c);
  completed.key_heads = c.heads_of_keys();
  completed.embedding_dropout = sizes.embedding_dropout;
  const Configuration defaults;
  for (const FamilyKey& key : family.keys) {
    const Field& field = field_named(key.ours);
    const bool is_left_open = key.standard == "null" && text_of(field, completed) == text_of(field, defaults);
    if (!is_left_open) config[std::string(key.theirs)] = theirs(key, completed);
  }
  if (family.is_rotary) {
    write_rotary(c, config);
    // A missing window would be one of 4,096 tokens; null, "none", is not understood by all who read such files.
    if (family.window == Window::unless_null) config["sliding_window"] = completed.context;
    if (family.window == Window::by_switch) config["use_sliding_window"] = false;
  }
  for (const auto& [key, value] : family.supported)
    if (key != "problem_type") config[std::string(key)] = Json::parse(value);
  if (family.model != ModelKind::classifier) return config;
  Json labels = Json::object(), ids = Json::object();
  for (size_t id = 0; id < classes.size(); ++id) {
    labels[std::to_string(id)] = classes[id];
    ids[classes[id]] = id;
  }
  config["id2label"] = labels;
  config["label2id"] = ids;
  return config;
}

std::string not_expressed(const Family& family, const Configuration& c) {
  if (family.model != c.model) return "--model " + text_of("model", c);
  Configuration like;
  like.model = c.model;
  for (const auto& [field, value] : family.fixed) set(field, value, like);
  for (const Field& field : fields()) {
    if (is_of_training(field) || (family.is_rotary && field.name.starts_with("rotary"))) continue;
    const std::string ours = text_of(field, c), difference = option_of(field.name) + " " + ours;
    const auto key = std::ranges::find(family.keys, field.name, &FamilyKey::ours);
    if (key == family.keys.end()) {
      // Fields that the model does not use are not compared, such as positions in a decoder without learned ones.
      if (ours != text_of(field, like)) return difference;
    } else if (!key->values.empty() &&
               std::ranges::none_of(key->values, [&](const auto& v) { return v.second == ours; })) {
      return difference;
    }
  }
  const auto has = [&](std::string_view field) {
    return std::ranges::find(family.keys, field, &FamilyKey::ours) != family.keys.end();
  };
  if (has("token_types") && c.token_types == 0) return "--token-types 0";
  const double embedding = c.embedding_dropout;
  if (has("dropout") && !has("embedding_dropout") && embedding >= 0 && embedding != c.dropout)
    return "--embedding-dropout " + shown(embedding) + " beside --dropout " + shown(c.dropout);
  return "";
}

std::vector<FamilyTensor> tensors_of(const Family& family, const std::string& ours) {
  const size_t dot = ours.rfind('.');
  std::string module = ours.substr(0, dot), block;
  const std::string tensor = ours.substr(dot);
  if (constexpr std::string_view kBlock = "block"; module.starts_with(kBlock)) {
    const size_t end = module.find('.');
    block = module.substr(kBlock.size(), end - kBlock.size());
    module = "block{}" + module.substr(end);
  }
  const auto found = std::ranges::find(family.modules, module, &FamilyModule::ours);
  if (found == family.modules.end())
    throw InternalError(ours + ": is not a tensor of " + std::string(family.model_type));
  std::vector<FamilyTensor> tensors;
  for (const std::string_view theirs : found->theirs) {
    std::string name(theirs);
    if (const size_t place = name.find("{}"); place != name.npos) name.replace(place, 2, block);
    tensors.push_back({name + tensor, found->is_transposed && tensor == ".weight", found->is_head});
  }
  return tensors;
}

}  // namespace adjoin::train
