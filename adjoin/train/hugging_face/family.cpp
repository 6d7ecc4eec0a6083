#include "adjoin/train/hugging_face/family.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <variant>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/train/text/transformer_options.hpp"

namespace adjoin::train {
namespace {

using Json = nlohmann::ordered_json;

/// The value of a key; null counts as missing.
Json value_of(const Json& config, std::string_view key, std::string_view standard) {
  const auto found = config.find(std::string(key));
  return found == config.end() || found->is_null() ? Json::parse(standard) : *found;
}

constexpr double kMostTokens = 1 << 30;

std::string with_value(std::string_view key, const Json& value) {
  return "\"" + std::string(key) + "\": " + value.dump();
}

[[noreturn]] void refuse(std::string_view key, const Json& value, const std::string& expected) {
  throw InvalidArgument(with_value(key, value) + " is not supported; expected " + expected);
}

bool is_size(const Json& value) {
  return value.is_number_integer() && value >= 1 && value <= INT64_MAX;
}

/// Sets a field to a value of its own type.
void assign(const Field& field, const FamilyKey& key, const Json& value, Configuration& into) {
  std::visit(
      [&](auto member) {
        using Value = std::decay_t<decltype(into.*member)>;
        constexpr bool is_number = std::is_same_v<Value, double>, is_truth = std::is_same_v<Value, bool>;
        const bool fits = is_number  ? value.is_number()
                          : is_truth ? value.is_boolean()
                                     : std::is_same_v<Value, int64_t> && value.is_number_integer();
        require(fits && (is_number ? value.get<double>() >= 0 : is_size(value) || is_truth), [&] {
          return with_value(key.theirs, value) + ": expected " +
                 (is_number  ? "a number of 0 or more"
                  : is_truth ? "true or false"
                             : "an integer of 1 or more");
        });
        if constexpr (is_number || is_truth || std::is_same_v<Value, int64_t>) value.get_to(into.*member);
      },
      field.member);
}

void read_key(const FamilyKey& key, const Json& config, Configuration& into) {
  const Json value = value_of(config, key.theirs, key.standard);
  const bool has_as_many_key_heads =
      key.ours == "key_heads" && config.contains(key.theirs) && config[key.theirs].is_null();
  if (value.is_null() || has_as_many_key_heads) return;
  const Field& field = field_named(key.ours);
  if (key.values.empty()) return assign(field, key, value, into);
  std::vector<std::string> known;
  for (const auto& [theirs, ours] : key.values) {
    if (Json::parse(theirs) == value) return set(field, ours, into);
    known.emplace_back(theirs);
  }
  refuse(key.theirs, value, joined(known, " or "));
}

double number_of(const Json& object, const char* key, std::optional<double> otherwise = {}) {
  const auto found = object.find(key);
  if ((found == object.end() || found->is_null()) && otherwise) return *otherwise;
  require(found != object.end() && found->is_number(), [&] {
    return "\"" + std::string(key) + "\" of the rotary positions: expected a number, got " +
           (found == object.end() ? "none" : found->dump());
  });
  return found->get<double>();
}

/// Rotary positions: transformers 5 writes them as "rope_parameters", transformers 4 as "rope_theta" and "rope_scaling".
void read_rotary(const Json& config, Configuration& into) {
  Json rope = value_of(config, "rope_parameters", "null");
  if (rope.is_null()) rope = value_of(config, "rope_scaling", "{}");
  require(rope.is_object(), [&] { return "the rotary positions are " + rope.dump() + ", expected an object"; });
  into.rotary_base = number_of(rope, "rope_theta", number_of(config, "rope_theta", 10000));
  const Json type = rope.contains("rope_type") ? rope["rope_type"] : value_of(rope, "type", R"("default")");
  if (type == "linear" || type == "llama3") {
    into.rotary_scaling = type.get<std::string>();
    into.rotary_factor = number_of(rope, "factor");
  } else if (type != "default") {
    refuse("rope_type", type, R"("default", "linear" or "llama3")");
  }
  if (type == "llama3") {
    into.rotary_low_turns = number_of(rope, "low_freq_factor");
    into.rotary_high_turns = number_of(rope, "high_freq_factor");
    const double trained = number_of(rope, "original_max_position_embeddings");
    if (!(trained >= 1 && trained <= kMostTokens))
      refuse("original_max_position_embeddings", rope["original_max_position_embeddings"],
             "1 to " + shown(kMostTokens));
    into.rotary_trained = static_cast<int64_t>(trained);
  }
  for (const Json& object : {rope, config})
    if (number_of(object, "partial_rotary_factor", 1) != 1)
      refuse("partial_rotary_factor", object["partial_rotary_factor"], "1");
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

Json rotary_to_config(const Configuration& c) {
  if (c.rotary_scaling == "none") return nullptr;
  Json rope = {{"rope_type", c.rotary_scaling}, {"factor", c.rotary_factor}};
  if (c.rotary_scaling == "llama3") {
    rope["low_freq_factor"] = c.rotary_low_turns;
    rope["high_freq_factor"] = c.rotary_high_turns;
    rope["original_max_position_embeddings"] = c.rotary_trained;
  }
  return rope;
}

/// For a qwen2: whether any of its layers has a window.
bool has_sliding_layers(const Json& config) {
  const Json types = value_of(config, "layer_types", "null");
  if (types.is_array()) return std::ranges::find(types, Json("sliding_attention")) != types.end();
  const Json first = value_of(config, "max_window_layers", "28");
  require(first.is_number_integer(), [&] { return with_value("max_window_layers", first) + ": expected an integer"; });
  const Json layers = value_of(config, "num_hidden_layers", "32");
  return layers > first;
}

/// The window within which tokens attend to each other; null if there is none.
Json window_of(const Family& family, const Json& config) {
  if (family.model_type != "mistral" && family.model_type != "qwen2") return nullptr;
  if (family.model_type == "qwen2") {
    const Json uses = value_of(config, "use_sliding_window", "false");
    require(uses.is_boolean(), [&] { return with_value("use_sliding_window", uses) + ": expected true or false"; });
    if (!uses.get<bool>() || !has_sliding_layers(config)) return nullptr;
  }
  const Json window = config.contains("sliding_window") ? config["sliding_window"] : Json(4096);
  require(window.is_null() || (is_size(window) && window >= 2),
          [&] { return with_value("sliding_window", window) + ": expected an integer of 2 or more"; });
  return window;
}

/// The family's value for the value of a field.
Json theirs(const FamilyKey& key, const Configuration& c) {
  const Field& field = field_named(key.ours);
  for (const auto& [of_theirs, ours] : key.values)
    if (ours == text_of(field, c)) return Json::parse(of_theirs);
  return std::visit(
      [&](auto member) -> Json {
        using Value = std::decay_t<decltype(c.*member)>;
        if constexpr (std::is_enum_v<Value>)
          return text_of(field, c);
        else
          return c.*member;
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
  for (const auto& [key, value] : family.supported) {
    const Json found = value_of(config, key, value);
    if (found != Json::parse(value)) refuse(key, found, std::string(value));
  }
  into.model = family.model;
  for (const auto& [field, value] : family.fixed) set(field_named(field), value, into);
  for (const FamilyKey& key : family.keys) read_key(key, config, into);
  if (family.is_rotary) {
    read_rotary(config, into);
    // Texts are never longer than a window.
    if (const Json window = window_of(family, config); !window.is_null())
      into.context = std::min(into.context, window.get<int64_t>());
  }
}

std::string limit_of_tokens(const Family& family, const Json& config) {
  const auto key = std::ranges::find(family.keys, "context", &FamilyKey::ours);
  const Json context = value_of(config, key->theirs, key->standard), window = window_of(family, config);
  return !window.is_null() && window < context ? with_value("sliding_window", window)
                                               : with_value(key->theirs, context);
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
  completed.key_heads = c.key_heads == 0 ? c.heads : c.key_heads;
  completed.embedding_dropout = sizes.embedding_dropout;
  const Configuration defaults;
  for (const FamilyKey& key : family.keys) {
    const Field& field = field_named(key.ours);
    const bool is_left_open = key.standard == "null" && text_of(field, completed) == text_of(field, defaults);
    config[std::string(key.theirs)] = is_left_open ? Json() : theirs(key, completed);
  }
  if (family.is_rotary) {
    config["rope_theta"] = c.rotary_base;
    config["rope_scaling"] = rotary_to_config(c);
    if (family.model_type == "mistral") config["sliding_window"] = nullptr;
    if (family.model_type == "qwen2") config["use_sliding_window"] = false;
  }
  for (const auto& [key, value] : family.supported)
    if (key != "problem_type") config[std::string(key)] = Json::parse(value);
  if (family.model != "classifier") return config;
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
  if (family.model != c.model) return "--model " + c.model;
  Configuration like;
  like.model = c.model;
  for (const auto& [field, value] : family.fixed) set(field_named(field), value, like);
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
  if (family.model_type == "bert" && c.token_types == 0) return "--token-types 0";
  const double embedding = c.embedding_dropout;
  if (family.model_type == "bert" && embedding >= 0 && embedding != c.dropout)
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
