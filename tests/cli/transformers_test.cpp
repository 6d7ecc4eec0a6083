#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/pretrained_folders.hpp"
#include "tests/support/pretrained_models.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using nlohmann::json;

const std::vector<std::string> kTexts{"The film is long and dull.", "a wonderful story of 1234"};

/// A folder that adjoin exported, and what transformers is to find in it.
struct Exported {
  std::string name, architecture;
};

/// As transformers lists it: a classifier's probabilities in the order of its classes, or bits of a byte, of each text.
json measured_by_adjoin(const fs::path& folder, const json& classes) {
  const Outcome outcome = run("predict --json --threads-per-rank 1 " + std::string(classes.is_null() ? "" : "--all ") +
                              "--model " + shell_quoted(folder) + " '" + kTexts[0] + "' '" + kTexts[1] + "'");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  json measured;
  for (const std::string& line : lines_of(outcome.out)) {
    const json answer = json::parse(line);
    json numbers = json::array();
    for (const json& name : classes) numbers.push_back(answer.at("probabilities").at(name.get<std::string>()));
    measured.push_back(classes.is_null() ? answer.at("bits_per_byte") : numbers);
  }
  return measured;
}

void expect_all_near(const json& found, const json& expected, double tolerance) {
  ASSERT_EQ(found.is_array(), expected.is_array());
  if (found.is_number()) {
    EXPECT_NEAR(found.get<double>(), expected.get<double>(), tolerance);
    return;
  }
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) expect_all_near(found[i], expected[i], tolerance);
}

/// One process of transformers writes the models to begin with, and one opens all that was exported.
TEST(Transformers, opens_what_is_exported_and_computes_the_same_of_texts) {
  const TemporaryFolder folder;
  write_cases(folder / "cases", "bert-words gpt2-bytes");
  const std::string bert = shell_quoted(folder / "cases/bert-words/model"),
                    gpt2 = shell_quoted(folder / "cases/gpt2-bytes/model");
  const std::string train = "train --data sample --samples 16 --batch 8 --steps 4 --threads-per-rank 1 ";
  run_well("tokenize --vocab " + bert, {.input = (folder / "cases/cases.json").string()});
  for (const auto& [arguments, name] : {std::pair("--from " + bert + " --sequence 32 --tp 2", "bert"),
                                        {"--from " + gpt2 + " --sequence 48 --pp 2", "gpt2"}})
    ASSERT_EQ(
        run(train + arguments + " --checkpoint-every 2 --keep 2" + into(folder / ("run-" + std::string(name)))).code, 0)
        << name;
  const auto exported = [&](const std::string& model, const std::string& name) {
    const Outcome outcome = run("export --model " + model + into(folder / name));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  };
  exported(bert, "bert-itself");
  exported(gpt2 + " --shard-size 30K", "gpt2-in-shards");
  exported(shell_quoted(folder / "run-bert"), "bert-trained");
  exported(shell_quoted(folder / "run-gpt2") + " --step 2", "gpt2-at-step-2");
  exported(shell_quoted(folder / "run-gpt2") + " --precision bf16", "gpt2-bf16");
  exported(shell_quoted(PretrainedFolders::bert()) + " --precision fp64", "bert-of-adjoin");
  exported(shell_quoted(PretrainedFolders::llama()), "llama-of-adjoin");
  fs::copy(PretrainedFolders::llama(), folder / "mistral", fs::copy_options::recursive);
  PretrainedFolders::change_config(folder / "mistral", [](json& config) {
    config["model_type"] = "mistral";
    config["sliding_window"] = 40;
  });
  exported(shell_quoted(folder / "mistral"), "mistral-with-a-window");
  put(folder / "tokenizer.json", tokenizer_of_qwen2().dump());
  ASSERT_EQ(run(train + PretrainedFolders::kLlama + "--attention-bias qkv --vocab " +
                shell_quoted(folder / "tokenizer.json") + into(folder / "run-qwen2"))
                .code,
            0);
  exported(shell_quoted(folder / "run-qwen2"), "qwen2-trained");
  exported(shell_quoted(folder / "qwen2-trained"), "qwen2-itself");
  const Exported all[] = {{"bert-itself", "BertForSequenceClassification"},
                          {"gpt2-in-shards", "GPT2LMHeadModel"},
                          {"bert-trained", "BertForSequenceClassification"},
                          {"gpt2-at-step-2", "GPT2LMHeadModel"},
                          {"gpt2-bf16", "GPT2LMHeadModel"},
                          {"bert-of-adjoin", "BertForSequenceClassification"},
                          {"llama-of-adjoin", "LlamaForCausalLM"},
                          {"mistral-with-a-window", "MistralForCausalLM"},
                          {"qwen2-trained", "Qwen2ForCausalLM"},
                          {"qwen2-itself", "Qwen2ForCausalLM"}};
  std::string folders;
  for (const Exported& one : all) folders += " " + shell_quoted(folder / one.name);
  put(folder / "texts.json", json(kTexts).dump());
  const std::vector<std::string> lines = lines_of(asked_of_oracle(
      "check " + shell_quoted(folder / "checked") + folders + " --texts " + shell_quoted(folder / "texts.json")));
  ASSERT_EQ(lines.size(), std::size(all));
  for (size_t i = 0; i < lines.size(); ++i) {
    SCOPED_TRACE(all[i].name);
    const json found = json::parse(lines[i]), config = json::parse(contents_of(folder / all[i].name / "config.json"));
    for (const auto& [key, value] : config.items()) EXPECT_FALSE(value.is_null()) << key;
    EXPECT_EQ(found.at("architecture"), all[i].architecture);
    const json classes = found.contains("classes") ? found.at("classes") : json();
    if (!classes.is_null()) {
      EXPECT_EQ(classes, json({"negative", "positive"}));
    }
    expect_all_near(found.at("texts"), measured_by_adjoin(folder / all[i].name, classes), 2e-6);
  }
}

}  // namespace
}  // namespace adjoin::cli
