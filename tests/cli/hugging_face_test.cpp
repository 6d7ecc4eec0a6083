#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "adjoin/store/safetensors.hpp"
#include "tests/cli/pretrained_folders.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kTrainFrom = "train --data sample --samples 16 --batch 8 --threads-per-rank 1 --from ";

fs::path bert() {
  return PretrainedFolders::bert();
}
fs::path llama() {
  return PretrainedFolders::llama();
}

std::string from(const fs::path& folder) {
  return shell_quoted(folder) + " ";
}
std::string of(const fs::path& folder) {
  return " --model " + shell_quoted(folder) + " ";
}

/// All tensors of a folder, of one file or several, as the bytes of their shapes and numbers.
std::map<std::string, std::string> bits_of(const fs::path& folder) {
  std::map<std::string, std::string> bits;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    const train::SafetensorsFile file(entry.path());
    for (const auto& [name, shape] : file.shapes()) {
      const train::StoredTensor& stored = file.find(name);
      std::string bytes(static_cast<size_t>(stored.end - stored.begin), '\0');
      file.read_bytes(bytes.data(), std::ssize(bytes), stored.begin);
      EXPECT_TRUE(bits.emplace(name, json(shape).dump() + c10::toString(stored.dtype) + bytes).second) << name;
    }
  }
  return bits;
}

std::vector<double> losses_in(const fs::path& run) {
  std::vector<double> losses;
  for (const std::string& line : lines_of(contents_of(metrics_of(run)))) losses.push_back(json::parse(line).at("loss"));
  return losses;
}

fs::path copy_of(const fs::path& folder, const fs::path& to) {
  fs::copy(folder, to, fs::copy_options::recursive);
  return to;
}

TEST(FromTransformers, trains_to_the_same_losses_in_every_layout) {
  const TemporaryFolder folder;
  const struct {
    fs::path model;
    std::string layout;
    int ranks;
  } layouts[] = {{bert(), "--tp 2", 0}, {bert(), "--dp 2 --zero 3", 0}, {bert(), "--pp 2", 0},
                 {bert(), "--tp 2", 2}, {llama(), "--tp 2 --dp 2", 0},  {llama(), "--pp 2 --recompute attention", 0},
                 {llama(), "--dp 2", 2}};
  const std::string more = " --sequence 32 --steps 3 --precision fp64 --dropout 0.1 --lr 0.001 ";
  std::map<fs::path, std::vector<double>> alone;
  for (const fs::path& model : {bert(), llama()}) {
    const fs::path out = folder / model.filename().string();
    ASSERT_EQ(run(kTrainFrom + from(model) + more + into(out)).code, 0);
    alone[model] = losses_in(out);
    ASSERT_EQ(alone[model].size(), 4u);
    EXPECT_NE(alone[model][0], alone[model][2]);
  }
  int number = 0;
  for (const auto& [model, layout, ranks] : layouts) {
    SCOPED_TRACE(model.filename().string() + " " + layout + (ranks > 0 ? " under mpirun" : ""));
    const fs::path out = folder / std::to_string(number++);
    const Outcome outcome = run(kTrainFrom + from(model) + more + layout + into(out), {.ranks = ranks});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const std::vector<double> losses = losses_in(out);
    ASSERT_EQ(losses.size(), alone[model].size());
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], alone[model][i], 1e-9) << "line " << i + 1;
  }
}

TEST(FromTransformers, a_folder_is_used_without_training_in_every_layout) {
  const std::string evaluate = "evaluate --data sample --samples 16 --threads-per-rank 1 ";
  for (const fs::path& model : {bert(), llama()}) {
    const double loss = printed_json(evaluate + of(model)).at("loss");
    for (const char* layout : {"--tp 2", "--dp 2", "--pp 2"})
      EXPECT_NEAR(printed_json(evaluate + layout + of(model)).at("loss").get<double>(), loss, 1e-5) << layout;
  }
  const Outcome label = run("predict 'a good film' 'dull'" + of(bert()));
  EXPECT_EQ(lines_of(label.out).size(), 2u) << label.err;
  EXPECT_EQ(run("predict 'a good film' 'dull' --tp 2" + of(bert())).out, label.out);
  const Outcome text = run("generate 'the ship' --tokens 12" + of(llama()));
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* layout : {"--tp 2", "--pp 2"})
    EXPECT_EQ(run("generate 'the ship' --tokens 12 " + std::string(layout) + of(llama())).out, text.out) << layout;
  EXPECT_EQ(run("generate 'the ship' --tokens 12 --tp 2" + of(llama()), {.ranks = 2}).out, text.out);
}

/// With a rate this low no weight of float32 changes: what a run ends with is what it began with.
class BeganWith : public testing::Test {
 protected:
  std::map<std::string, std::string> bits_after(const fs::path& model, const std::string& said) {
    const fs::path out = folder_ / "run";
    fs::remove_all(out);
    const Outcome outcome = run(kTrainFrom + from(model) + " --sequence 32 --steps 1 --lr 1e-30" + into(out));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr(said));
    const fs::path exported = folder_ / "exported";
    fs::remove_all(exported);
    EXPECT_EQ(run("export --model " + from(out) + into(exported)).code, 0);
    return bits_of(exported);
  }
  /// A copy of the BERT whose config.json names other classes.
  fs::path with_classes(const json& names) {
    const fs::path model = folder_ / "model";
    fs::remove_all(model);
    copy_of(bert(), model);
    PretrainedFolders::change_config(model, [&](json& config) { config["id2label"] = names; });
    return model;
  }
  TemporaryFolder folder_;
};

TEST_F(BeganWith, a_head_of_the_same_classes_is_kept) {
  const auto all = bits_of(bert());
  EXPECT_EQ(bits_after(bert(), "begins with the weights of " + bert().string() + "\n"), all);
  const fs::path turned = with_classes({{"0", "POS"}, {"1", "NEG"}});
  EXPECT_EQ(bits_after(turned, "begins with the weights of " + turned.string() + "\n"), all);
  const json config = json::parse(contents_of(folder_ / "exported" / "config.json"));
  EXPECT_EQ(config.at("id2label"), json({{"0", "POS"}, {"1", "NEG"}}));
}

TEST_F(BeganWith, a_head_of_other_classes_is_drawn_anew_and_nothing_else) {
  const auto all = bits_of(bert());
  const fs::path other = with_classes({{"0", "rain"}, {"1", "sun"}});
  for (const auto& [name, bits] : bits_after(other, "for other classes: classifier.row\n"))
    if (name == "classifier.weight") {
      EXPECT_NE(bits, all.at(name));
    } else if (name != "classifier.bias") {
      EXPECT_EQ(bits, all.at(name)) << name;
    }
  const json config = json::parse(contents_of(folder_ / "exported" / "config.json"));
  EXPECT_EQ(config.at("id2label"), json({{"0", "negative"}, {"1", "positive"}}));
}

TEST_F(BeganWith, a_runs_folder_is_as_good_as_one_of_transformers) {
  const auto all = bits_of(bert());
  EXPECT_EQ(bits_after(bert(), "begins with"), all);
  const fs::path run_of = folder_ / "first";
  fs::rename(folder_ / "run", run_of);
  EXPECT_EQ(bits_after(run_of, "begins with the weights of " + run_of.string() + "\n"), all);
}

TEST(FromTransformers, a_run_is_resumed_when_the_folder_is_gone) {
  const TemporaryFolder folder;
  for (const fs::path& model : {bert(), llama()}) {
    const fs::path copy = copy_of(model, folder / "model"), whole = folder / "whole", resumed = folder / "resumed";
    ASSERT_EQ(
        run(kTrainFrom + from(copy) + " --sequence 32 --steps 4 --checkpoint-every 2 --keep 2" + into(whole)).code, 0);
    fs::remove_all(copy);
    const Outcome outcome = run("train --resume " + from(whole) + " --step 2 --tp 2" + into(resumed));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const std::vector<double> expected = losses_in(whole), losses = losses_in(resumed);
    EXPECT_NEAR(losses.back(), expected.back(), 1e-5);
    EXPECT_EQ(run("evaluate --data sample --samples 8" + of(resumed)).code, 0);
    EXPECT_EQ(run("export" + of(resumed) + into(folder / "exported")).code, 0);
    for (const char* name : {"whole", "resumed", "exported"}) fs::remove_all(folder / name);
  }
}

/// Writes a folder's weights as `change` leaves them.
void change_weights(const fs::path& folder, const std::function<void(std::map<std::string, at::Tensor>&)>& change) {
  std::map<std::string, at::Tensor> weights;
  {
    const train::SafetensorsFile file(folder / "model.safetensors");
    for (const auto& [name, shape] : file.shapes()) weights.emplace(name, file.read(name));
  }
  change(weights);
  fs::remove(folder / "model.safetensors");
  train::write_safetensors(folder / "model.safetensors", {weights.begin(), weights.end()});
}

TEST(FromTransformers, tensors_that_are_one_here_may_have_different_types) {
  const TemporaryFolder folder;
  const fs::path mixed = copy_of(llama(), folder / "mixed"), rounded = copy_of(llama(), folder / "rounded");
  const auto is_rounded = [](const std::string& name) {
    return name.find("k_proj") != name.npos || name.find("up_proj") != name.npos;
  };
  for (const auto& [model, type] : {std::pair(mixed, at::kBFloat16), {rounded, at::kFloat}})
    change_weights(model, [&, type = type](auto& weights) {
      for (auto& [name, tensor] : weights)
        if (is_rounded(name)) tensor = tensor.to(at::kBFloat16).to(type);
    });
  const std::string evaluate = "evaluate --data sample --samples 16 --threads-per-rank 1 ";
  const double loss = printed_json(evaluate + of(rounded)).at("loss");
  for (const char* layout : {"", "--tp 2"})
    EXPECT_NEAR(printed_json(evaluate + layout + of(mixed)).at("loss").get<double>(), loss, 1e-5) << layout;
  run_well("export" + of(mixed) + into(folder / "exported"));
  EXPECT_EQ(bits_of(folder / "exported"), bits_of(mixed));
  const json config = json::parse(contents_of(folder / "exported" / "config.json"));
  EXPECT_EQ(config.at("torch_dtype"), "float32") << "transformers rounds to it";
}

TEST(FromTransformers, a_tied_model_may_have_the_scores_instead_of_the_embedding) {
  const TemporaryFolder folder;
  const fs::path usual = copy_of(llama(), folder / "usual"), other = copy_of(llama(), folder / "other");
  for (const fs::path& model : {usual, other})
    PretrainedFolders::change_config(model, [](json& config) { config["tie_word_embeddings"] = true; });
  change_weights(usual, [](auto& weights) { weights.erase("lm_head.weight"); });
  change_weights(other, [](auto& weights) {
    weights.at("lm_head.weight") = weights.at("model.embed_tokens.weight");
    weights.erase("model.embed_tokens.weight");
  });
  for (const fs::path& model : {usual, other}) run_well("export" + of(model) + into(model / "exported"));
  EXPECT_EQ(bits_of(other / "exported"), bits_of(usual / "exported"));
  change_weights(other, [](auto& weights) { weights.erase("lm_head.weight"); });
  EXPECT_THAT(run("generate the --tokens 2" + of(other)).err, HasSubstr("no tensor 'model.embed_tokens.weight'"));
}

TEST(Export, of_a_folder_in_float32_gives_its_bits) {
  const TemporaryFolder folder;
  for (const fs::path& model : {bert(), llama()}) {
    const auto all = bits_of(model);
    const fs::path one = folder / "one", several = folder / "several";
    run_well("export" + of(model) + into(one));
    EXPECT_EQ(bits_of(one), all);
    const json counts = printed_json("export --shard-size 20K" + of(model) + into(several));
    EXPECT_EQ(bits_of(several), all);
    EXPECT_EQ(counts.at("tensors"), all.size());
    const json index = json::parse(contents_of(several / "model.safetensors.index.json"));
    EXPECT_EQ(index.at("metadata").at("total_size"), counts.at("bytes"));
    std::set<std::string> files;
    for (const auto& [name, file] : index.at("weight_map").items()) {
      files.insert(file);
      EXPECT_TRUE(train::SafetensorsFile(several / file.get<std::string>()).contains(name)) << name;
    }
    EXPECT_EQ(counts.at("files"), files.size());
    EXPECT_GT(files.size(), 2u);
    EXPECT_EQ(*files.begin(), "model-00001-of-0000" + std::to_string(files.size()) + ".safetensors");
    for (const std::string& file : files)
      EXPECT_LT(fs::file_size(several / file), 36'000u) << "20,000 bytes of tensors, or one tensor, and the header";
    // What was exported is a model here too.
    const fs::path again = folder / "again";
    run_well("export" + of(several) + into(again));
    EXPECT_EQ(bits_of(again), all);
    EXPECT_EQ(contents_of(again / "config.json"), contents_of(one / "config.json"));
    for (const fs::path& made : {one, several, again}) fs::remove_all(made);
  }
}

TEST(Export, rounds_to_the_precision_that_was_asked_for) {
  const TemporaryFolder folder;
  for (const auto& [precision, type, name] : {std::tuple("bf16", at::kBFloat16, "bfloat16"),
                                              {"fp16", at::kHalf, "float16"},
                                              {"fp64", at::kDouble, "float64"},
                                              {"fp32", at::kFloat, "float32"}}) {
    const fs::path out = folder / precision;
    run_well("export --precision " + std::string(precision) + of(bert()) + into(out));
    const train::SafetensorsFile before(bert() / "model.safetensors"), after(out / "model.safetensors");
    ASSERT_EQ(after.shapes(), before.shapes());
    for (const auto& [tensor, shape] : before.shapes())
      EXPECT_TRUE(after.read(tensor).equal(before.read(tensor).to(type))) << tensor;
    EXPECT_EQ(json::parse(contents_of(out / "config.json")).at("torch_dtype"), name);
  }
}

TEST(Export, goes_into_an_empty_folder_and_one_whose_name_ends_in_a_slash) {
  const TemporaryFolder folder;
  const std::set<std::string> expected{"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"};
  fs::create_directories(folder / "empty");
  for (const fs::path& out : {folder / "empty", folder / "fresh/", folder / "deep/er", folder / "other/."}) {
    run_well("export" + of(bert()) + into(out));
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(out)) found.insert(entry.path().filename().string());
    EXPECT_EQ(found, expected) << out;
    EXPECT_EQ(bits_of(out), bits_of(bert()));
  }
  for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
    EXPECT_THAT(entry.path().string(), Not(HasSubstr("adjoin-new"))) << "is left over";
}

}  // namespace
}  // namespace adjoin::cli
