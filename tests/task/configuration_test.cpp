#include "adjoin/task/configuration.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "adjoin/base/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::train {
namespace {

using test::message_of;
using ::testing::HasSubstr;

TEST(Configuration, of_each_preset_is_valid_and_keeps_its_name) {
  ASSERT_EQ(presets().size(), 10u);  // the first are the names of columns
  for (const auto& preset : std::span(presets()).subspan(1)) {
    ASSERT_EQ(preset.size(), presets()[0].size()) << preset[0];
    Configuration configuration = configuration_of(preset[0]);
    EXPECT_EQ(configuration.preset, preset[0]);
    if (preset[0].starts_with("fine-tune")) configuration.from = "a model";
    EXPECT_NO_THROW(validate(configuration)) << preset[0];
  }
}

TEST(Configuration, of_bert_presets_has_the_published_sizes_and_none_of_the_extras) {
  // Devlin et al. 2018, section 3: BASE (L=12, H=768, A=12), LARGE (L=24, H=1024, A=16).
  const Configuration base = configuration_of("bert-base"), large = configuration_of("bert-large");
  EXPECT_EQ((std::vector{base.layers, base.hidden, base.heads, base.sequence}),
            (std::vector<int64_t>{12, 768, 12, 512}));
  EXPECT_EQ((std::vector{large.layers, large.hidden, large.heads, large.sequence}),
            (std::vector<int64_t>{24, 1024, 16, 512}));
  for (const Configuration& bert : {base, large}) {
    EXPECT_EQ(text_of("pooling", bert), "cls");
    EXPECT_EQ(text_of("positions", bert), "none");
    EXPECT_EQ(text_of("score_scale", bert), "hidden");
    EXPECT_FALSE(bert.final_norm);
    EXPECT_EQ(bert.token_dropout, 0);
  }
}

TEST(Configuration, differs_between_presets_only_where_presets_decide) {
  const nlohmann::ordered_json defaults = to_json(Configuration{});
  for (const auto& preset : std::span(presets()).subspan(1)) {
    const nlohmann::ordered_json json = to_json(configuration_of(preset[0]));
    for (const auto& [key, value] : json.items())
      EXPECT_TRUE(key == "preset" || preset_decides(key) || value == defaults.at(key)) << preset[0] << " " << key;
  }
}

TEST(Configuration, goes_through_json_unchanged) {
  Configuration configuration = configuration_of("tiny");
  configuration.lr = 0.1 + 0.2;
  configuration.seed = 123456789012345;
  configuration.final_norm = false;
  configuration.out = "a \"folder\"";
  const auto text = to_json(configuration).dump();
  EXPECT_EQ(configuration_from_json(nlohmann::ordered_json::parse(text)), configuration);
  EXPECT_EQ(to_json(configuration).size(), fields().size());
}

TEST(Configuration, from_json_fills_absent_keys_from_the_preset) {
  const auto configuration = configuration_from_json({{"preset", "bert-large"}, {"heads", 8}});
  EXPECT_EQ(configuration.hidden, 1024);
  EXPECT_EQ(configuration.heads, 8);
}

TEST(Configuration, from_json_refuses_unknown_keys_and_other_types) {
  const auto message = [](const char* text) {
    return message_of<InvalidArgument>([&] { configuration_from_json(nlohmann::ordered_json::parse(text)); });
  };
  EXPECT_THAT(message(R"({"hiden": 3})"), HasSubstr("unknown key: hiden"));
  EXPECT_THAT(message(R"({"hidden": "3"})"), HasSubstr("hidden has the wrong type: \"3\""));
  EXPECT_THAT(message(R"({"hidden": 3.5})"), HasSubstr("hidden has the wrong type"));
  EXPECT_THAT(message(R"({"final_norm": 1})"), HasSubstr("final_norm has the wrong type"));
  EXPECT_THAT(message("[]"), HasSubstr("not a JSON object"));
}

TEST(Configuration, is_refused_with_the_option_what_was_expected_and_what_came) {
  const auto message = [](auto change) {
    return message_of<InvalidArgument>([&] {
      Configuration configuration;
      change(configuration);
      validate(configuration);
    });
  };
  EXPECT_EQ(message([](auto&) {}), "");
  EXPECT_EQ(message([](auto& c) { c.heads = 3; }), "--hidden 128 is not divisible by --heads 3");
  EXPECT_THAT(message([](auto& c) { c.tp = 5; }), HasSubstr("--tp 5 is more than --heads 4"));
  EXPECT_EQ(message([](auto& c) { c.batch = 0; }), "--batch is 0, expected 1 to 16777216");
  EXPECT_THAT(message([](auto& c) { c.layers = -1; }), HasSubstr("--layers is -1"));
  EXPECT_THAT(message([](auto& c) { c.dp = 0; }), HasSubstr("--dp is 0"));
  EXPECT_EQ(message([](auto& c) { c.cp = 257; }),
            "--cp 257 is more than --sequence 256: a context-parallel rank needs at least one token");
  EXPECT_EQ(message([](auto& c) { c.sp = true; }), "--sp splits rows over tensor-parallel ranks, and --tp is 1");
  EXPECT_EQ(message([](auto& c) { set("cp_method", "star", c); }),
            "--cp-method is \"star\", expected one of ring, ulysses, gathered");
  EXPECT_THAT(message([](auto& c) { set("recompute", "all", c); }),
              HasSubstr("expected one of none, attention, segment"));
  EXPECT_THAT(message([](auto& c) { c.dropout = 1; }), HasSubstr("--dropout is 1, expected less"));
  EXPECT_THAT(message([](auto& c) { c.dropout = -0.1; }), HasSubstr("--dropout is -0.1, expected 0 to 1"));
  EXPECT_THAT(message([](auto& c) { c.token_dropout = 2; }), HasSubstr("--token-dropout is 2"));
  EXPECT_THAT(message([](auto& c) { c.lr = 0; }), HasSubstr("--lr is 0"));
  EXPECT_EQ(message([](auto& c) { c.momentum = 1; }), "--momentum is 1, expected less than 1");
  EXPECT_EQ(message([](auto& c) { c.momentum = 0.5; }), "--momentum is for --optimizer sgd, and --optimizer is adamw");
  EXPECT_EQ(message([](auto& c) { set("optimizer", "adam", c); }),
            "--optimizer is \"adam\", expected one of adamw, sgd, muon");
  EXPECT_THAT(message([](auto& c) { c.lr = std::numeric_limits<double>::quiet_NaN(); }), HasSubstr("--lr is nan"));
  EXPECT_EQ(message([](auto& c) {
              c = configuration_from_json({{"precision", "fp8"}});
            }),
            "--precision is \"fp8\", expected one of fp64, fp32, bf16, fp16");
  EXPECT_THAT(message([](auto& c) { set("pooling", "cls|mean", c); }), HasSubstr("expected one of cls, mean"));
  EXPECT_THAT(message([](auto& c) { set("backend", "", c); }), HasSubstr("expected one of auto, threads, mpi"));
  EXPECT_EQ(message([](auto& c) { c.out = "run\xff"; }), "--out is not UTF-8");
}

TEST(Configuration, of_an_unknown_preset_lists_the_known_ones) {
  EXPECT_EQ(message_of<InvalidArgument>([] { configuration_of("huge"); }),
            "--preset is \"huge\", expected one of tiny, small, bert-base, bert-large, fine-tune, gpt-tiny, "
            "gpt-small, gpt2, fine-tune-gpt");
}

TEST(Configuration, has_one_option_a_field_with_a_help_text) {
  EXPECT_EQ(option_of("threads_per_rank"), "--threads-per-rank");
  for (const Field& field : fields()) EXPECT_GT(field.help.size(), 10u) << field.name;
}

}  // namespace
}  // namespace adjoin::train
