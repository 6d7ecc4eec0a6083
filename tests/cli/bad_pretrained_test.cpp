#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "adjoin/store/safetensors.hpp"
#include "tests/cli/pretrained_folders.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Weights = std::map<std::string, at::Tensor>;

Weights weights_of(const fs::path& file) {
  const train::SafetensorsFile stored(file);
  Weights weights;
  for (const auto& [name, shape] : stored.shapes()) weights.emplace(name, stored.read(name));
  return weights;
}

void write_weights(const fs::path& file, const Weights& weights) {
  fs::remove(file);
  std::vector<train::TensorEntry> entries;
  for (const auto& [name, tensor] : weights) entries.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  train::make_safetensors(file, entries, {{"format", "pt"}});
  train::SafetensorsFilling filling(file);
  for (const auto& [name, tensor] : weights)
    filling.write(name, 0, tensor.contiguous().const_data_ptr(), tensor.numel());
  filling.sync();
}

/// A copy of a folder of transformers that a test spoils. Every command that is to refuse it must end with code 2, say one line,
/// and leave nothing behind.
class BadPretrained : public testing::Test {
 protected:
  void begin(const fs::path& sound) {
    is_llama_ = sound == PretrainedFolders::llama();
    fs::remove_all(model());
    fs::copy(sound, model(), fs::copy_options::recursive);
  }
  void set(const std::string& key, const json& value) {
    PretrainedFolders::change_config(model(), [&](json& config) { config[key] = value; });
  }
  void change(const std::function<void(Weights&)>& change) {
    Weights weights = weights_of(model() / "model.safetensors");
    change(weights);
    write_weights(model() / "model.safetensors", weights);
  }
  void refuses_command(const std::string& command, const std::string& expected) {
    SCOPED_TRACE(command);
    const auto before = tree_of(model());
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 2) << outcome.err << outcome.out;
    const std::vector<std::string> lines = lines_of(outcome.err);
    ASSERT_EQ(lines.size(), 1u) << outcome.err;
    EXPECT_THAT(lines[0], AllOf(StartsWith("adjoin: "), HasSubstr(expected)));
    EXPECT_FALSE(fs::exists(out())) << "something was written";
    EXPECT_EQ(tree_of(model()), before);
  }
  /// By all commands that read a model.
  void refuses(const std::string& expected) {
    refuses_command(train(), expected);
    refuses_command("evaluate --data sample --samples 8 --model " + quoted(), expected);
    refuses_command("export --model " + quoted() + into(out()), expected);
    refuses_command("predict 'a film' --model " + quoted(), expected);
    if (is_llama_) refuses_command("generate 'a film' --model " + quoted(), expected);
  }
  void refuses_in_config(const std::string& key, const json& value, const std::string& expected,
                         const fs::path& sound = PretrainedFolders::bert()) {
    SCOPED_TRACE(key + ": " + value.dump());
    begin(sound);
    set(key, value);
    refuses_command(train(), expected);
  }
  std::string train(const std::string& more = "") const {
    return "train --data sample --samples 16 --steps 1 --batch 8 --threads-per-rank 1 --from " + quoted() +
           into(out()) + " " + more;
  }
  fs::path model() const { return folder_ / "model"; }
  fs::path out() const { return folder_ / "out"; }
  std::string quoted() const { return shell_quoted(model()); }
  std::string config() const { return (model() / "config.json").string(); }

  TemporaryFolder folder_;
  bool is_llama_ = false;
};

TEST_F(BadPretrained, folders_without_what_a_model_needs_are_refused) {
  begin(PretrainedFolders::bert());
  fs::remove(model() / "config.json");
  refuses(model().string() + ": holds no model, as there is no config.json");
  begin(PretrainedFolders::bert());
  fs::remove(model() / "model.safetensors");
  refuses(model().string() + ": there is neither model.safetensors nor model.safetensors.index.json");
  put(model() / "pytorch_model.bin", "");
  refuses(model().string() + ": holds only pytorch_model.bin, but adjoin reads only safetensors");
  begin(PretrainedFolders::llama());
  fs::remove(model() / "tokenizer.json");
  refuses(model().string() + ": is a folder without a tokenizer; expected tokenizer.json");
  put(model() / "adapter_config.json", "{}");
  refuses((model() / "adapter_config.json").string() + ": adapters are not supported");
  refuses_command("train --data sample --from /none" + into(out()), "/none: there is no such folder");
  refuses_command("train --data sample --from ''" + into(out()), "--from is empty, expected the folder of a model");
}

TEST_F(BadPretrained, descriptions_that_are_none_are_refused) {
  begin(PretrainedFolders::bert());
  for (const char* text : {"", "{oops", "{\"model_type\": \"bert\""}) {
    put(model() / "config.json", text);
    refuses(config() + ": this is not JSON");
  }
  put(model() / "config.json", "[]");
  refuses(config() + ": the configuration is not a JSON object");
  put(model() / "config.json", R"({"architectures": ["BertModel"], "hidden_size": 24})");
  refuses(config() + ": the configuration does not name its model: it has neither \"model\"");
  put(model() / "config.json", R"({"model_type": "t5"})");
  refuses(config() + ": \"model_type\": \"t5\" is not known; known are bert, gpt2, llama, ");
}

TEST_F(BadPretrained, keys_that_change_results_are_refused_by_name_and_value) {
  refuses_in_config("is_decoder", true, config() + ": \"is_decoder\": true is not supported");
  refuses_in_config("position_embedding_type", "relative_key_query",
                    "\"position_embedding_type\": \"relative_key_query\"");
  refuses_in_config("quantization_config", {{"bits", 4}}, "\"quantization_config\" is not supported");
  refuses_in_config("hidden_act", "relu", "\"hidden_act\": \"relu\" is not supported; expected \"gelu\"");
  refuses_in_config("problem_type", "regression", "\"problem_type\": \"regression\" is not supported");
  const fs::path& llama = PretrainedFolders::llama();
  refuses_in_config("rope_scaling", {{"rope_type", "yarn"}, {"factor", 2}}, "\"rope_type\": \"yarn\" is not supported",
                    llama);
  refuses_in_config("rope_scaling", {{"type", "dynamic"}, {"factor", 2}}, "\"rope_type\": \"dynamic\"", llama);
  refuses_in_config("partial_rotary_factor", 0.5, "\"partial_rotary_factor\": 0.5 is not supported", llama);
  refuses_in_config("hidden_act", "gelu", "\"hidden_act\": \"gelu\" is not supported; expected \"silu\"", llama);
}

TEST_F(BadPretrained, a_sequence_beyond_the_window_or_the_positions_is_refused_by_their_key) {
  begin(PretrainedFolders::llama());
  refuses_command(train("--sequence 65"), "--sequence 65: is longer than the model allows, as " + config() +
                                              " has \"max_position_embeddings\": 64");
  set("model_type", "mistral");
  set("sliding_window", 16);
  refuses_command(train("--sequence 32"), config() + " has \"sliding_window\": 16");
  begin(PretrainedFolders::bert());
  refuses_command(train("--sequence 41"), config() + " has \"max_position_embeddings\": 40");
}

TEST_F(BadPretrained, sizes_unlike_the_weights_are_refused_before_anything_of_their_size_is_made) {
  refuses_in_config("hidden_size", 48, "has the shape [310, 24], expected [310, 48] by config.json");
  refuses_in_config("hidden_size", 16'000'000, "expected [310, 16000000] by config.json");
  refuses_in_config("vocab_size", 16'000'000, "expected [16000000, 24] by config.json");
  refuses_in_config("num_attention_heads", 5,
                    config() + ": \"hidden_size\" 24 is not divisible by \"num_attention_heads\" 5");
  refuses_in_config("num_attention_heads", "4",
                    config() + ": \"num_attention_heads\": \"4\": expected an integer of 1 or more");
  refuses_in_config("intermediate_size", 0, config() + ": \"intermediate_size\": 0: expected an integer of 1 or more");
  refuses_in_config("hidden_size", -1, config() + ": \"hidden_size\": -1: expected an integer of 1 or more");
  refuses_in_config("hidden_size", 1LL << 40, config() + ": \"hidden_size\" is 1099511627776, expected 1 to ");
  refuses_in_config("num_hidden_layers", 10'000,
                    config() + ": describes 10,000 layers, and the weights have no tensor");
  refuses_in_config("num_hidden_layers", 1, "the model has no tensor 'bert.encoder.layer.1.");
  refuses_in_config("intermediate_size", 97, "has the shape [96], expected [97] by config.json");
  begin(PretrainedFolders::bert());
  set("vocab_size", 20);
  change([](Weights& weights) {
    at::Tensor& rows = weights.at("bert.embeddings.word_embeddings.weight");
    rows = rows.narrow(0, 0, 20);
  });
  refuses(model().string() + ": the tokenizer has 300 pieces, and the model's embedding only 20 rows");
  refuses_in_config("num_key_value_heads", 3, "\"num_attention_heads\" 4 is not divisible by \"num_key_value_heads\" 3",
                    PretrainedFolders::llama());
}

TEST_F(BadPretrained, weights_that_are_none_are_refused) {
  const auto bias = "bert.encoder.layer.1.output.dense.bias";
  begin(PretrainedFolders::bert());
  change([&](Weights& weights) { weights.at(bias)[3] = std::numeric_limits<float>::quiet_NaN(); });
  refuses(model().string() + ": tensor '" + bias + "' holds numbers that are not finite");
  begin(PretrainedFolders::bert());
  change([&](Weights& weights) { weights.at(bias)[3] = 1e5; });
  refuses_command("export --precision fp16 --model " + quoted() + into(out()), "they would become infinite");
  change([&](Weights& weights) { weights.erase(bias); });
  refuses(model().string() + ": there is no tensor 'bert.encoder.layer.1.output.dense.bias'");
  change([&](Weights& weights) { weights[bias] = at::zeros({24}, at::kLong); });
  refuses("tensor 'bert.encoder.layer.1.output.dense.bias' is of Long, expected floating-point numbers");
  begin(PretrainedFolders::bert());
  fs::resize_file(model() / "model.safetensors", 50'000);
  refuses((model() / "model.safetensors").string() + ": tensor ");
}

TEST_F(BadPretrained, scores_that_differ_from_the_embedding_are_not_tied_to_it_silently) {
  begin(PretrainedFolders::llama());
  set("tie_word_embeddings", true);
  refuses("tensor 'lm_head.weight' is not equal to 'model.embed_tokens.weight', though \"tie_word_embeddings\"");
  change([](Weights& weights) { weights.at("lm_head.weight") = weights.at("model.embed_tokens.weight"); });
  EXPECT_EQ(run("generate --tokens 3 --model " + quoted() + " the").code, 0) << "the same numbers again are no fault";
}

TEST_F(BadPretrained, indices_that_lie_are_refused) {
  begin(PretrainedFolders::llama());
  const fs::path file = model() / "model.safetensors", index = model() / "model.safetensors.index.json";
  Weights weights = weights_of(file), first, second;
  json places;
  for (const auto& [name, tensor] : weights) {
    (places.size() < 10 ? first : second).emplace(name, tensor);
    places[name] = places.size() < 10 ? "a.safetensors" : "b.safetensors";
  }
  fs::remove(file);
  write_weights(model() / "a.safetensors", first);
  write_weights(model() / "b.safetensors", second);
  const auto put_index = [&](const json& map) { put(index, json{{"weight_map", map}}.dump()); };
  put_index(places);
  EXPECT_EQ(run("generate --tokens 3 --model " + quoted() + " the").code, 0);

  const std::string one = first.begin()->first, other = second.begin()->first;
  for (const char* outside : {"../x.safetensors", "/etc/passwd", ".."}) {
    json changed = places;
    changed[one] = outside;
    put_index(changed);
    refuses(index.string() + ": names a file outside of the folder, \"" + outside + "\"");
  }
  json changed = places;
  changed[one] = "c.safetensors";
  put_index(changed);
  refuses((model() / "c.safetensors").string() +
          ": there is no such file, though model.safetensors.index.json names it");
  changed[one] = "b.safetensors";
  put_index(changed);
  refuses((model() / "b.safetensors").string() + ": holds no tensor '" + one + "'");
  put(index, R"({"weight_map": {")" + one + R"(": "a.safetensors", ")" + one + R"(": "a.safetensors"}})");
  refuses(index.string() + ": names the tensor \"" + one + "\" twice");
  put(index, "[]");
  refuses(index.string() + ": this is not an index of weights");
  put_index(places);
  second.emplace(one, first.at(one));
  write_weights(model() / "b.safetensors", second);
  refuses("b.safetensors: holds the tensor '" + one + "', which another file holds too");
}

TEST_F(BadPretrained, options_that_contradict_the_file_are_refused) {
  begin(PretrainedFolders::bert());
  for (const auto& [option, own] : {std::pair("--hidden 48", "24"),
                                    {"--layers 3", "2"},
                                    {"--heads 2", "4"},
                                    {"--model decoder", "classifier"},
                                    {"--norm-epsilon 0.5", "1e-05"},
                                    {"--preset tiny", "fine-tune"}})
    refuses_command(train(option),
                    std::string(option) + ": --from " + model().string() + " decides it, and there it is " + own);
  refuses_command(train("--vocab words.txt"),
                  "--vocab words.txt: --from " + model().string() + " has a vocabulary of its own");
  refuses_command(train("--resume " + quoted()),
                  "--from begins a new training and --resume continues one: give only one of them");
  refuses_command("train --preset fine-tune --data sample" + into(out()),
                  "--preset fine-tune is the recipe for training an existing model further");
  refuses_command("predict --step 3 a --model " + quoted(), "--step 3: chooses a checkpoint of a run, but ");
  refuses_command("generate a --model " + quoted(), "is a classifier, and only a decoder writes texts");
}

TEST_F(BadPretrained, classes_that_do_not_fit_are_refused) {
  begin(PretrainedFolders::bert());
  set("id2label", {{"0", "rain"}, {"1", "sun"}});
  refuses_command("evaluate --data sample --samples 8 --model " + quoted(), "expected one of \"rain\", \"sun\"");
  set("id2label", {{"0", "rain"}, {"1", "rain"}});
  refuses(config() + ": two classes are named \"rain\"");
  set("id2label", {{"0", "rain"}, {"2", "sun"}});
  refuses(config() + ": \"id2label\": expected a name for each id from 0 to 1, got \"2\": \"sun\"");
  set("id2label", {{"0", "rain"}, {"1", "sun"}, {"2", "snow"}});
  refuses_command("predict a --model " + quoted(),
                  "tensor 'classifier.bias' has the shape [2], expected [3] by config.json");
  set("id2label", {{"0", "score"}});
  change([](Weights& weights) {
    for (const char* name : {"classifier.weight", "classifier.bias"})
      weights.at(name) = weights.at(name).narrow(0, 0, 1);
  });
  refuses_command("predict a --model " + quoted(), config() + ": \"id2label\" names one class");
  begin(PretrainedFolders::bert());
  change([](Weights& weights) { weights.erase("classifier.weight"); });
  refuses_command("predict a --model " + quoted(), ": lacks the weights of a classifier; adjoin train --from ");
}

TEST_F(BadPretrained, exports_into_a_folder_in_use_or_of_what_no_family_has_are_refused) {
  begin(PretrainedFolders::bert());
  refuses_command("export --model " + quoted() + into(model()),
                  "--out " + model().string() + ": exists and is not an empty");
  refuses_command("export --model " + quoted() + into(model() / "config.json"), "exists and is not an empty folder");
  refuses_command("export --model " + quoted(), "--out is needed");
  for (const char* size : {"0", "-1", "1.5G", "2GB"})
    refuses_command("export --shard-size=" + std::string(size) + " --model " + quoted() + into(out()),
                    "expected at least 1 byte, as 500000, 500M or 2G");
  const fs::path of_run = folder_ / "run";
  ASSERT_EQ(run(kSmallRun + "--steps 1 --pooling mean" + into(of_run)).code, 0);
  refuses_command("export --model " + shell_quoted(of_run) + into(out()),
                  of_run.string() + ": transformers has no such model: bert has no --pooling mean");
}

}  // namespace
}  // namespace adjoin::cli
