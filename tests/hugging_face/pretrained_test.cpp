#include "adjoin/hugging_face/pretrained.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "adjoin/models/decoder.hpp"
#include "adjoin/models/generate.hpp"
#include "adjoin/models/model.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/nn/cross_entropy.hpp"
#include "adjoin/store/read_piece.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/task/transformer_options.hpp"
#include "adjoin/train/trainer.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/pretrained_models.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::train {
namespace {

using namespace adjoin::testing;
using test::pretrained_cases;
using test::PretrainedCase;

/// What transformers computed is in these tensors.
at::Tensor expected_tensor(const PretrainedCase& one, const std::string& name) {
  return SafetensorsFile(one.tensors()).read(name);
}

/// The one batch of a case, whose samples are given as tokens.
class GivenBatch : public Task {
 public:
  explicit GivenBatch(const PretrainedCase& one)
      : ids_(expected_tensor(one, "ids")),
        labels_(expected_tensor(one, "labels")),
        configuration_(read_pretrained(one.model)) {
    const at::Tensor lengths = expected_tensor(one, "lengths");
    lengths_.assign(lengths.const_data_ptr<int64_t>(), lengths.const_data_ptr<int64_t>() + lengths.numel());
    configuration_.precision = Precision::fp64;
    configuration_.sequence = configuration_.context;
    configuration_.dropout = configuration_.attention_dropout = 0;
    configuration_.embedding_dropout = configuration_.classifier.dropout = 0;
    classes_ = static_cast<int64_t>(one.classes.size());
  }

  Configuration& configuration() { return configuration_; }
  bool is_decoder() const { return configuration_.is_decoder(); }
  models::TransformerOptions options() const { return transformer_options(configuration_, 1); }

  int64_t size(data::Part) const override { return std::ssize(lengths_); }
  std::vector<models::Segment> segments() const override {
    models::TransformerOptions options = this->options();
    options.rows = row_options(configuration_);
    return is_decoder() ? models::decoder(options, configuration_.tied_scores)
                        : models::text_classifier(options, classifier_options(configuration_, classes_));
  }
  MicroBatch micro_batch(data::Part, std::span<const int64_t> samples, const data::BatchPart& mine,
                         Step step) const override {
    step.first_sample += mine.begin;
    std::vector<at::Tensor> ids{ids_.narrow(0, 0, 0)}, labels{labels_.narrow(0, 0, 0)};
    std::vector<int64_t> lengths;
    for (const int64_t sample : samples.subspan(static_cast<size_t>(mine.begin), static_cast<size_t>(mine.count))) {
      const int64_t first = std::accumulate(lengths_.begin(), lengths_.begin() + sample, int64_t{0});
      lengths.push_back(lengths_[static_cast<size_t>(sample)]);
      ids.push_back(ids_.narrow(0, first, lengths.back()));
      labels.push_back(is_decoder() ? labels_.narrow(0, first, lengths.back()) : labels_.narrow(0, sample, 1));
    }
    return {.input = at::cat(ids),
            .target = at::cat(labels),
            .pass = {step, LocalTokenRows(TokenRows::balanced(lengths, 1))},
            .tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0})};
  }
  bool output_is_per_token() const override { return is_decoder(); }
  double loss_denominator(data::Part, std::span<const int64_t> samples) const override {
    if (!is_decoder()) return static_cast<double>(samples.size());
    double tokens = 0;
    for (const int64_t sample : samples) tokens += static_cast<double>(lengths_[static_cast<size_t>(sample)]);
    return tokens;
  }
  at::Tensor loss(const at::Tensor& scores, const MicroBatch& batch, const Grid& grid) const override {
    if (!is_decoder()) return nn::cross_entropy(scores, batch.target);
    const Communicator& tp = grid.axis("tp");
    return nn::vocabulary_parallel_cross_entropy(scores, batch.target, tp,
                                                 Split::balanced(configuration_.words, tp.size(), 0));
  }

 private:
  at::Tensor ids_, labels_;
  Configuration configuration_;
  std::vector<int64_t> lengths_;
  int64_t classes_ = 0;
};

std::map<std::string, std::vector<int64_t>> shapes_of(const std::vector<nn::Parameter>& parameters) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const nn::Parameter& parameter : parameters) shapes.emplace(parameter.name, parameter.layout.shape());
  return shapes;
}

/// Fills this worker's pieces; what the folder lacks, the case gives.
void read_case(const PretrainedCase& one, const std::vector<nn::Parameter>& parameters) {
  const at::NoGradGuard no_gradient;
  const FamilyWeights weights = find_pretrained_weights(one.model, shapes_of(parameters));
  for (const nn::Parameter& parameter : parameters)
    if (const auto found = weights.tensors.find(parameter.name); found != weights.tensors.end())
      read_piece(found->second, parameter);
  for (const std::string& lacking : weights.lacking) {
    const std::string name = "drawn.classifier" + lacking.substr(lacking.rfind('.'));
    for (const nn::Parameter& parameter : parameters)
      if (parameter.name == lacking)
        read_piece({{{std::make_shared<SafetensorsFile>(one.tensors()), name}}}, parameter);
  }
}

const Family& family_named(const std::string& model_type) {
  return *std::ranges::find(families(), model_type, &Family::model_type);
}

/// The largest difference, relative to the largest number that is expected.
double difference(const at::Tensor& found, const at::Tensor& expected) {
  return ((found - expected).abs().max() / expected.abs().max()).item<double>();
}

TEST(Pretrained, has_the_logits_loss_and_gradients_of_transformers) {
  for (const PretrainedCase& one : pretrained_cases()) {
    SCOPED_TRACE(one.name);
    GivenBatch task(one);
    models::Model model(task.segments(), Grid(Communicator(), grid_sizes(task.configuration()).shape()), at::kDouble);
    const std::vector<nn::Parameter> parameters = parameters_of(model);
    read_case(one, parameters);
    const std::vector<int64_t> samples{0, 1, 2, 3, 4};
    const MicroBatch batch = task.micro_batch(data::Part::train, samples, {0, 5}, {});
    const at::Tensor logits = model(batch.input, batch.pass);
    EXPECT_LT(difference(logits, expected_tensor(one, "logits")), 1e-9);
    if (SafetensorsFile(one.tensors()).contains("own.logits")) {
      EXPECT_LT(difference(logits, expected_tensor(one, "own.logits")), 1e-5) << "angles are float32 there";
      const at::Tensor ids = expected_tensor(one, "long.ids");
      const ForwardPass of_long{.rows = LocalTokenRows(TokenRows::balanced({ids.numel()}, 1))};
      EXPECT_LT(difference(model(ids, of_long), expected_tensor(one, "own.long.logits")), 1e-5);
    }
    const at::Tensor loss =
        task.loss(logits, batch, model->stage()) / task.loss_denominator(data::Part::train, samples);
    EXPECT_NEAR(loss.item<double>(), one.expected.at("loss").get<double>(), 1e-9);
    loss.backward();
    const Family& family = family_named(one.family);
    for (const nn::Parameter& parameter : parameters) {
      std::vector<at::Tensor> rows;
      for (const FamilyTensor& theirs : tensors_of(family, parameter.name)) {
        const at::Tensor gradient =
            expected_tensor(one, "gradient." + (theirs.is_head ? "" : std::string(family.prefix)) + theirs.name);
        rows.push_back(theirs.is_transposed ? gradient.t() : gradient);
      }
      EXPECT_LT(difference(parameter.tensor.grad(), at::cat(rows)), 1e-9) << parameter.name;
    }
  }
}

TEST(Pretrained, learns_as_a_loop_in_pytorch_in_every_layout) {
  for_each_world({1, 2, 4}, [](const Communicator& world) {
    for (const PretrainedCase& one : pretrained_cases()) {
      const bool is_typical = one.name == "bert" || one.name == "gpt2" || one.name == "llama";
      if (world.size() > 1 && !is_typical) continue;
      SCOPED_TRACE(one.name);
      GivenBatch task(one);
      Configuration& c = task.configuration();
      c.lr = 1e-3;
      c.weight_decay = 0.01;
      c.clip = 0;
      c.tp = std::min(2, world.size());
      c.dp = world.size() / c.tp;
      c.zero = world.size() == 4 ? 3 : 1;
      c.batch = 5;
      Trainer trainer(c, task, world);
      read_case(one, trainer.parameters());
      const std::vector<int64_t> samples{0, 1, 2, 3, 4};
      for (size_t step = 0; step < 20; ++step)
        ASSERT_NEAR(trainer.step(samples, static_cast<int64_t>(step), c.lr).loss,
                    one.expected.at("losses")[step].get<double>(), 1e-9)
            << "step " << step << " on " << world.size();
    }
  });
}

TEST(Pretrained, writes_texts_as_transformers_does) {
  for_each_world({1, 2}, [](const Communicator& world) {
    for (const PretrainedCase& one : pretrained_cases()) {
      const GivenBatch task(one);
      const models::TransformerOptions options = GivenBatch(one).options();
      const int64_t key_heads = options.key_heads == 0 ? options.heads : options.key_heads;
      if (!task.is_decoder() || key_heads < world.size()) continue;
      SCOPED_TRACE(one.name);
      const models::Model model(task.segments(), Grid(world, {{"ep", 1}, {"cp", 1}, {"tp", world.size()}}),
                                at::kDouble);
      read_case(one, parameters_of(model));
      for (const auto& text : one.expected.at("greedy"))
        EXPECT_EQ(models::generate(model, options, text.at("prompt").get<models::Tokens>(), {.tokens = 64}),
                  text.at("tokens").get<models::Tokens>());
    }
  });
}

/// The logits of a text with the model of a folder.
at::Tensor logits_with(const std::filesystem::path& folder, const at::Tensor& ids) {
  Configuration c = read_pretrained(folder);
  c.dropout = c.attention_dropout = c.embedding_dropout = c.classifier.dropout = 0;
  const models::TransformerOptions options = transformer_options(c, 1);
  const auto classes = std::ssize(read_pretrained_classes(folder));
  models::Model model(c.is_decoder() ? models::decoder(options, c.tied_scores)
                                     : models::text_classifier(options, classifier_options(c, classes)),
                      Grid(Communicator(), grid_sizes(c).shape()), at::kDouble);
  const std::vector<nn::Parameter> parameters = parameters_of(model);
  const FamilyWeights weights = find_pretrained_weights(folder, shapes_of(parameters));
  const at::NoGradGuard no_gradient;
  for (const nn::Parameter& parameter : parameters) read_piece(weights.tensors.at(parameter.name), parameter);
  const int64_t tokens = std::min(ids.numel(), c.context);
  return model(ids.narrow(0, 0, tokens), ForwardPass{.rows = LocalTokenRows(TokenRows::balanced({tokens}, 1))});
}

/// Whether an error names one of the keys of a config.json, or an entry of its value.
bool names_one_of(const std::string& error, const nlohmann::json& keys, const nlohmann::json& config) {
  const auto names = [&](const std::string& key) { return error.find('"' + key + '"') != error.npos; };
  return std::ranges::any_of(keys, [&](const std::string& key) {
    if (names(key)) return true;
    const nlohmann::json value = config.value(key, nlohmann::json());
    return value.is_object() &&
           std::ranges::any_of(value.items(), [&](const auto& entry) { return names(entry.key()); });
  });
}

/// What transformers refuses may be refused here, or be a model.
TEST(Pretrained, has_the_logits_of_transformers_under_random_configurations_or_names_a_key) {
  int compared = 0, refused = 0;
  const auto folder = pretrained_cases().front().folder.parent_path() / "variations";
  for (int64_t seed = 0; std::filesystem::exists(folder / std::to_string(seed)); ++seed) {
    PretrainedCase one;
    one.folder = folder / std::to_string(seed);
    const auto expected = nlohmann::json::parse(test::contents_of(one.folder / "expected.json"));
    SCOPED_TRACE("seed " + std::to_string(seed) + ", changed " + expected.at("changed").dump() + " to " +
                 expected.at("config").dump());
    const bool is_model = SafetensorsFile(one.tensors()).contains("ids");
    const at::Tensor ids = is_model ? expected_tensor(one, "ids") : at::ones({4}, at::kLong);
    at::Tensor logits;
    try {
      logits = logits_with(one.folder / "model", ids);
    } catch (const InvalidArgument& error) {
      ++refused;
      EXPECT_TRUE(!is_model || names_one_of(error.what(), expected.at("changed"), expected.at("config")))
          << error.what();
      continue;
    }
    if (!is_model) continue;
    ++compared;
    for (const char* name : {"logits", "logits.cached"}) {
      if (!SafetensorsFile(one.tensors()).contains(name)) continue;
      EXPECT_LT(difference(logits, expected_tensor(one, name).narrow(0, 0, logits.size(0))), 1e-3) << name;
    }
  }
  EXPECT_GT(compared, refused / 4);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace adjoin::train
