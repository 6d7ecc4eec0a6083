#include "adjoin/hugging_face/family.hpp"

namespace adjoin::train {
namespace {

/// The values of "hidden_act" in models without a gate.
std::vector<std::pair<std::string_view, std::string_view>> activations() {
  return {{R"("gelu")", "gelu"}, {R"("gelu_new")", "gelu_tanh"}, {R"("gelu_pytorch_tanh")", "gelu_tanh"}};
}

Family bert() {
  return {.model_type = "bert",
          .model = ModelKind::classifier,
          .architecture = "BertForSequenceClassification",
          .prefix = "bert.",
          .trunk_roots = {"embeddings.", "encoder.", "pooler."},
          .is_rotary = false,
          .keys = {{"vocab_size", "words", "30522"},
                   {"hidden_size", "hidden", "768"},
                   {"num_hidden_layers", "layers", "12"},
                   {"num_attention_heads", "heads", "12"},
                   {"intermediate_size", "inner", "3072"},
                   {"hidden_act", "activation", R"("gelu")", activations()},
                   {"hidden_dropout_prob", "dropout", "0.1"},
                   {"attention_probs_dropout_prob", "attention_dropout", "0.1"},
                   {"classifier_dropout", "classifier_dropout", "null"},
                   {"max_position_embeddings", "context", "512"},
                   {"type_vocab_size", "token_types", "2"},
                   {"layer_norm_eps", "norm_epsilon", "1e-12"}},
          .fixed = {{"positions", "learned"},
                    {"pooling", "cls"},
                    {"pooler", "true"},
                    {"norm_place", "after"},
                    {"embedding_norm", "true"},
                    {"final_norm", "false"},
                    {"attention_bias", "all"},
                    {"feed_forward_bias", "true"}},
          .supported = {{"position_embedding_type", R"("absolute")"},
                        {"is_decoder", "false"},
                        {"add_cross_attention", "false"},
                        {"problem_type", R"("single_label_classification")"}},
          .modules = {{"embedding", {"embeddings.word_embeddings"}},
                      {"positions", {"embeddings.position_embeddings"}},
                      {"token_types", {"embeddings.token_type_embeddings"}},
                      {"embedding_norm", {"embeddings.LayerNorm"}},
                      {"block{}.attention.qkv",
                       {"encoder.layer.{}.attention.self.query", "encoder.layer.{}.attention.self.key",
                        "encoder.layer.{}.attention.self.value"}},
                      {"block{}.attention.out", {"encoder.layer.{}.attention.output.dense"}},
                      {"block{}.norm1", {"encoder.layer.{}.attention.output.LayerNorm"}},
                      {"block{}.feed_forward.column", {"encoder.layer.{}.intermediate.dense"}},
                      {"block{}.feed_forward.row", {"encoder.layer.{}.output.dense"}},
                      {"block{}.norm2", {"encoder.layer.{}.output.LayerNorm"}},
                      {"classifier.column", {"pooler.dense"}},
                      {"classifier.row", {"classifier"}, false, /*is_head=*/true}}};
}

Family gpt2() {
  return {.model_type = "gpt2",
          .model = ModelKind::decoder,
          .architecture = "GPT2LMHeadModel",
          .prefix = "transformer.",
          .trunk_roots = {"wte.", "wpe.", "h.", "ln_f."},
          .is_rotary = false,
          .keys = {{"vocab_size", "words", "50257"},
                   {"n_embd", "hidden", "768", {}, "hidden_size"},
                   {"n_layer", "layers", "12", {}, "num_hidden_layers"},
                   {"n_head", "heads", "12", {}, "num_attention_heads"},
                   {"n_positions", "context", "1024", {}, "max_position_embeddings"},
                   {"n_inner", "inner", "null"},
                   {"activation_function", "activation", R"("gelu_new")", activations()},
                   {"resid_pdrop", "dropout", "0.1"},
                   {"embd_pdrop", "embedding_dropout", "0.1"},
                   {"attn_pdrop", "attention_dropout", "0.1"},
                   {"layer_norm_epsilon", "norm_epsilon", "1e-5"},
                   {"tie_word_embeddings", "tied_scores", "true"}},
          .fixed = {{"positions", "learned"}, {"attention_bias", "all"}, {"feed_forward_bias", "true"}},
          .supported = {{"scale_attn_weights", "true"},
                        {"scale_attn_by_inverse_layer_idx", "false"},
                        {"add_cross_attention", "false"}},
          .modules = {{"embedding", {"wte"}},
                      {"positions", {"wpe"}},
                      {"block{}.norm1", {"h.{}.ln_1"}},
                      {"block{}.attention.qkv", {"h.{}.attn.c_attn"}, /*is_transposed=*/true},
                      {"block{}.attention.out", {"h.{}.attn.c_proj"}, /*is_transposed=*/true},
                      {"block{}.norm2", {"h.{}.ln_2"}},
                      {"block{}.feed_forward.column", {"h.{}.mlp.c_fc"}, /*is_transposed=*/true},
                      {"block{}.feed_forward.row", {"h.{}.mlp.c_proj"}, /*is_transposed=*/true},
                      {"norm", {"ln_f"}},
                      {"scores", {"lm_head"}, false, /*is_head=*/true}}};
}

/// What llama, mistral and qwen2 have in common, with the values that missing keys of a config.json stand for.
Family rotary_family(std::string_view model_type, std::string_view architecture, std::string_view words,
                     std::string_view inner, std::string_view key_heads, std::string_view context) {
  return {.model_type = model_type,
          .model = ModelKind::decoder,
          .architecture = architecture,
          .prefix = "model.",
          .trunk_roots = {"embed_tokens.", "layers.", "norm."},
          .is_rotary = true,
          .keys = {{"vocab_size", "words", words},
                   {"hidden_size", "hidden", "4096"},
                   {"intermediate_size", "inner", inner},
                   {"num_hidden_layers", "layers", "32"},
                   {"num_attention_heads", "heads", "32"},
                   {"num_key_value_heads", "key_heads", key_heads},
                   {"head_dim", "head_size", "null"},
                   {"hidden_act", "activation", R"("silu")", {{R"("silu")", "swiglu"}}},
                   {"max_position_embeddings", "context", context},
                   {"rms_norm_eps", "norm_epsilon", "1e-6"},
                   {"attention_dropout", "attention_dropout", "0.0"},
                   {"tie_word_embeddings", "tied_scores", "false"}},
          .fixed = {{"positions", "rotary"}, {"norm", "rms"}, {"dropout", "0"}},
          .supported = {},
          .modules = {{"embedding", {"embed_tokens"}},
                      {"block{}.norm1", {"layers.{}.input_layernorm"}},
                      {"block{}.attention.qkv",
                       {"layers.{}.self_attn.q_proj", "layers.{}.self_attn.k_proj", "layers.{}.self_attn.v_proj"}},
                      {"block{}.attention.out", {"layers.{}.self_attn.o_proj"}},
                      {"block{}.norm2", {"layers.{}.post_attention_layernorm"}},
                      {"block{}.feed_forward.column", {"layers.{}.mlp.gate_proj", "layers.{}.mlp.up_proj"}},
                      {"block{}.feed_forward.row", {"layers.{}.mlp.down_proj"}},
                      {"norm", {"norm"}},
                      {"scores", {"lm_head"}, false, /*is_head=*/true}}};
}

Family llama() {
  Family family = rotary_family("llama", "LlamaForCausalLM", "32000", "11008", "null", "2048");
  family.keys.push_back({"attention_bias", "attention_bias", "false", {{"false", "none"}, {"true", "all"}}});
  family.keys.push_back({"mlp_bias", "feed_forward_bias", "false"});
  return family;
}

Family mistral() {
  Family family = rotary_family("mistral", "MistralForCausalLM", "32000", "14336", "8", "131072");
  family.window = Window::unless_null;
  family.fixed.push_back({"attention_bias", "none"});
  family.fixed.push_back({"feed_forward_bias", "false"});
  return family;
}

Family qwen2() {
  Family family = rotary_family("qwen2", "Qwen2ForCausalLM", "151936", "22016", "32", "32768");
  family.window = Window::by_switch;
  family.fixed.push_back({"attention_bias", "qkv"});
  family.fixed.push_back({"feed_forward_bias", "false"});
  return family;
}

}  // namespace

std::span<const Family> families() {
  static const Family known[] = {bert(), gpt2(), llama(), mistral(), qwen2()};
  return known;
}

}  // namespace adjoin::train
