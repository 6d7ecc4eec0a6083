#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"
#include "adjoin/hugging_face/family.hpp"
#include "adjoin/hugging_face/pretrained.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::train {
namespace {

using Json = nlohmann::ordered_json;
using namespace test;

/// What a config.json decides.
Configuration read_from(const Json& config) {
  Configuration configuration;
  read_model(family_of(config), config, configuration);
  return configuration;
}

void expect_refused(const Json& config, const std::string& expected) {
  SCOPED_TRACE(config.dump());
  try {
    read_from(config);
    ADD_FAILURE() << "is not refused";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
  }
}

TEST(ConfigKeys, that_change_results_are_refused_by_name_unless_they_have_the_usual_value) {
  const struct {
    const char *key, *usual, *other;
    bool is_of_decoders = false;
  } cases[] = {{"configuration_files", "null", R"(["config.4.json"])"},
               {"is_encoder_decoder", "false", "true"},
               {"per_layer_config", "{}", R"({"1":{"hidden_act":"relu"}})"},
               {"pruned_heads", "{}", R"({"0":[1]})"},
               {"transformers_weights", "null", R"("other.safetensors")"},
               {"attention_chunk_size", "null", "8", true},
               {"is_causal", "true", "false", true},
               {"kv_sharing_modes", "null", R"(["store","reuse"])", true},
               {"layer_types", R"(["full_attention"])", R"(["chunked_attention"])", true},
               {"num_kv_shared_layers", "0", "1", true}};
  for (const char* family : {"bert", "gpt2", "llama", "mistral", "qwen2"})
    for (const auto& [key, usual, other, is_of_decoders] : cases) {
      Json config = {{"model_type", family}, {key, Json::parse(usual)}};
      EXPECT_NO_THROW(read_from(config)) << config;
      config[key] = nullptr;
      EXPECT_NO_THROW(read_from(config)) << config;
      config[key] = Json::parse(other);
      if (is_of_decoders && std::string(family) == "bert")
        EXPECT_NO_THROW(read_from(config)) << config;
      else
        expect_refused(config, "\"" + std::string(key) + "\": " + other + " is not supported; expected ");
    }
}

TEST(ConfigKeys, of_rotary_positions_count_in_each_place_where_transformers_reads_them) {
  const Json yarn = {{"rope_type", "yarn"}, {"factor", 2}}, usual = {{"rope_type", "default"}},
             linear = {{"type", "linear"}, {"factor", 4}};
  const auto with = [](const Json& scaling, const Json& parameters) {
    return Json{
        {"model_type", "llama"}, {"rope_theta", 77}, {"rope_scaling", scaling}, {"rope_parameters", parameters}};
  };
  for (const auto& [scaling, parameters] : {std::pair(yarn, usual), {nullptr, yarn}, {Json::object(), yarn}})
    expect_refused(with(scaling, parameters), R"("rope_type": "yarn" is not supported)");
  expect_refused(with(nullptr, {{"full_attention", usual}}), R"("rope_parameters": {"full_attention")");
  expect_refused(with({{"rope_type", "linear"}, {"type", "yarn"}, {"factor", 2}}, nullptr), R"("type": "yarn")");
  expect_refused(with(5, nullptr), "\"rope_scaling\": 5: expected an object");
  const Configuration both = read_from(with(linear, {{"rope_type", "default"}, {"rope_theta", 5}}));
  EXPECT_EQ(both.rotary.scaling, nn::RotaryOptions::Scaling::linear);
  EXPECT_EQ(both.rotary.factor, 4);
  EXPECT_EQ(both.rotary.base, 77);
  EXPECT_EQ(read_from(with(Json::object(), {{"rope_theta", 5}})).rotary.base, 5);
}

TEST(ConfigKeys, of_windows_limit_the_context_of_every_rotary_decoder) {
  for (const char* family : {"llama", "mistral", "qwen2"}) {
    const Json config = {
        {"model_type", family}, {"sliding_window", 8}, {"use_sliding_window", true}, {"max_window_layers", 0}};
    EXPECT_EQ(read_from(config).context, 8) << family;
  }
  expect_refused({{"model_type", "gpt2"}, {"sliding_window", 8}}, "\"sliding_window\": 8 is not supported");
}

TEST(ConfigKeys, of_a_gpt2_have_two_names) {
  const Configuration c =
      read_from({{"model_type", "gpt2"}, {"n_embd", 12}, {"hidden_size", 24}, {"num_hidden_layers", 3}});
  EXPECT_EQ(c.hidden, 24);
  EXPECT_EQ(c.layers, 3);
  expect_refused({{"model_type", "gpt2"}, {"num_attention_heads", "4"}}, "\"num_attention_heads\": \"4\"");
}

TEST(ConfigKeys, are_not_written_as_null) {
  for (const Family& family : families()) {
    Configuration c = read_from({{"model_type", family.model_type}});
    const Json config = to_config(family, c, 30522, {"a", "b"});
    for (const auto& [key, value] : config.items()) EXPECT_FALSE(value.is_null()) << family.model_type << " " << key;
    Configuration again = read_from(config);
    EXPECT_EQ(again.context, c.context) << family.model_type;
  }
}

}  // namespace
}  // namespace adjoin::train
