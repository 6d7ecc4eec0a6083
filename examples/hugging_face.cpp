// Loads a model of Hugging Face's transformers from its folder and scores texts with it. Without a folder it first makes one: it
// trains a small BERT for a few steps and exports it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <utility>

#include "adjoin/data/sampler.hpp"
#include "adjoin/train/export_model.hpp"
#include "adjoin/train/predictor.hpp"
#include "adjoin/train/saved_model.hpp"
#include "adjoin/train/tasks.hpp"

using namespace adjoin;
namespace fs = std::filesystem;

/// Prints the likeliest class of each text and its probability, or with a decoder the bits per byte of the text.
void score(const train::ModelUse& use, const std::vector<std::string>& texts) {
  const auto next = [rest = texts]() mutable { return std::exchange(rest, {}); };  // all at once, then none
  const auto print = [&](std::span<const train::Prediction> predictions) {
    for (size_t i = 0; i < predictions.size(); ++i) {
      const train::Prediction& p = predictions[i];
      std::cout << p.label << (p.label.empty() ? "" : " ") << p.what << ' ' << p.value << ": " << texts[i] << '\n';
    }
  };
  train::predict(use, {next, print});
}

/// Trains a model that transformers has too, a BertForSequenceClassification, and exports it.
void make_model(const fs::path& run, const fs::path& folder) {
  train::Configuration c = train::configuration_of("tiny");
  c.data = "sample";
  c.layers = 1, c.token_types = 2;
  c.classifier.pooling = models::ClassifierOptions::Pooling::cls,
  c.norm_place = models::TransformerOptions::NormPlace::after,
  c.attention_bias = models::TransformerOptions::AttentionBias::all;
  c.classifier.pooler = c.embedding_norm = c.feed_forward_bias = true;
  c.final_norm = false;
  const auto task = train::task_kind(c).make(c);
  train::run_workers(c, [&](const Communicator& world) {
    train::Trainer trainer(c, *task, world);
    trainer.initialize();
    data::Sampler samples({.samples = task->size(data::Part::train), .batch = c.batch, .seed = 1});
    for (int64_t step = 0; step < 20; ++step) trainer.step(samples.next(), step, /*learning_rate=*/2e-3);
    train::save_model(run, c, *task, trainer);
  });
  train::export_model({.model = run, .out = folder});
}

int main(int argc, char** argv) {
  train::ModelUse use;
  std::vector<std::string> texts{"a wonderful film", "the plot is a waste of time"};
  CLI::App app("Scores texts with a model of Hugging Face's transformers.", "hugging_face");
  app.add_option("folder", use.model, "config.json, safetensors, tokenizer [a small model]")->option_text("FOLDER");
  app.add_option("texts", texts, "What to score [two texts]")->option_text("TEXT...");
  app.add_option("--tp", use.ranks.tp, "Workers that each hold a part of every layer [1]")->option_text("N");
  CLI11_PARSE(app, argc, argv);
  const fs::path made = fs::temp_directory_path() / ("hugging_face-" + std::to_string(::getpid()));
  int code = 0;
  try {
    if (use.model.empty()) {
      fs::create_directories(made / "run");
      make_model(made / "run", made / "model");
      use.model = made / "model";
    }
    score(use, texts);
  } catch (const std::exception& error) {
    std::cerr << "hugging_face: " << error.what() << '\n';
    code = 2;
  }
  fs::remove_all(made);
  return code;
}
