"""Tiny random models of transformers, and cuts of their weights over an axis tp."""

import torch
import transformers as t

BATCH, TOKENS, WORDS = 3, 10, 99
SMALL = {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 64}
DECODER = dict(SMALL, num_key_value_heads=2, use_cache=False)
LOCAL = dict(DECODER, sliding_window=8)


def _ids(tokens=TOKENS):
    return torch.randint(5, WORDS - 1, (BATCH, tokens))


def _text():
    mask = torch.ones(BATCH, TOKENS, dtype=torch.long)
    mask[0, TOKENS - 3 :] = 0
    return {"input_ids": _ids(), "attention_mask": mask}


def _picture(size):
    return {"pixel_values": torch.randn(BATCH, 3, size, size)}


def by_heads(projections, out, up, down):
    """Queries, keys, values and the products before an activation by outputs, heads whole; what reads them by inputs."""
    cuts = {name: "outputs over tp by 8" for name in projections} | {name: "inputs over tp by 8" for name in out}
    return cuts | {name: "outputs over tp" for name in up} | {name: "inputs over tp" for name in down}


_BERT = by_heads(
    ["*.self.query.*", "*.self.key.*", "*.self.value.*"],
    ["*.attention.output.dense.weight"],
    ["*.intermediate.dense.*"],
    ["*.layer.0.output.dense.weight", "*.layer.1.output.dense.weight"],
)
_LLAMA = by_heads(["*.q_proj.*", "*.k_proj.*", "*.v_proj.*"], ["*.o_proj.weight"], ["*.gate_proj.*", "*.up_proj.*"], ["*.down_proj.weight"])
_MLP = by_heads([], [], ["*.fc1.*"], ["*.fc2.weight"])

# Of each family a function that makes a model, one that makes its arguments, and cuts.
FAMILIES = {
    "bert": (lambda: t.BertForSequenceClassification(t.BertConfig(**SMALL)), _text, _BERT),
    "roberta": (lambda: t.RobertaForSequenceClassification(t.RobertaConfig(**SMALL)), _text, _BERT),
    "distilbert": (
        lambda: t.DistilBertForSequenceClassification(
            t.DistilBertConfig(vocab_size=WORDS, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=64)
        ),
        _text,
        by_heads(["*.q_lin.*", "*.k_lin.*", "*.v_lin.*"], ["*.out_lin.weight"], ["*.lin1.*"], ["*.lin2.weight"]),
    ),
    "albert": (
        lambda: t.AlbertForSequenceClassification(t.AlbertConfig(**SMALL, embedding_size=16)),
        _text,
        by_heads(
            ["*.attention.query.*", "*.attention.key.*", "*.attention.value.*"], ["*.attention.dense.weight"], ["*.ffn.*"], ["*.ffn_output.weight"]
        ),
    ),
    "electra": (lambda: t.ElectraForSequenceClassification(t.ElectraConfig(**SMALL, embedding_size=16)), _text, _BERT),
    "deberta": (
        lambda: t.DebertaV2ForSequenceClassification(
            t.DebertaV2Config(
                **SMALL,
                relative_attention=True,
                max_relative_positions=16,
                position_buckets=8,
                pos_att_type=["p2c", "c2p"],
                share_att_key=True,
                norm_rel_ebd="layer_norm",
                position_biased_input=False,
            )
        ),
        _text,
        by_heads(
            ["*.query_proj.*", "*.key_proj.*", "*.value_proj.*"],
            ["*.attention.output.dense.weight"],
            ["*.intermediate.dense.*"],
            ["*.layer.0.output.dense.weight", "*.layer.1.output.dense.weight"],
        ),
    ),
    "modernbert": (
        lambda: t.ModernBertForSequenceClassification(
            t.ModernBertConfig(
                **SMALL,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=2,
                cls_token_id=1,
                sep_token_id=2,
                local_attention=8,
                global_attn_every_n_layers=2,
            )
        ),
        _text,
        {
            "*.Wqkv.weight": "outputs over tp in 3 parts by 8",
            "*.attn.Wo.weight": "inputs over tp by 8",
            "*.mlp.Wi.weight": "outputs over tp in 2 parts",
            "*.mlp.Wo.weight": "inputs over tp",
        },
    ),
    "gpt2": (
        lambda: t.GPT2LMHeadModel(
            t.GPT2Config(vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=64, use_cache=False, bos_token_id=0, eos_token_id=0)
        ),
        _text,
        {  # whose weights are [inputs, outputs]
            "*.c_attn.weight": "dim 1 over tp in 3 parts by 8",
            "*.c_attn.bias": "dim 0 over tp in 3 parts by 8",
            "*.attn.c_proj.weight": "dim 0 over tp by 8",
            "*.c_fc.weight": "dim 1 over tp",
            "*.c_fc.bias": "dim 0 over tp",
            "*.mlp.c_proj.weight": "dim 0 over tp",
        },
    ),
    "llama": (lambda: t.LlamaForCausalLM(t.LlamaConfig(**DECODER)), _text, _LLAMA | {"*embed_tokens.weight": "words over tp"}),
    "qwen2": (lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**DECODER)), _text, _LLAMA),
    "qwen3": (lambda: t.Qwen3ForCausalLM(t.Qwen3Config(**DECODER, head_dim=8)), _text, _LLAMA),
    "gemma2": (lambda: t.Gemma2ForCausalLM(t.Gemma2Config(**LOCAL, head_dim=8)), _text, _LLAMA),
    "gemma3": (lambda: t.Gemma3ForCausalLM(t.Gemma3TextConfig(**LOCAL, head_dim=8)), _text, _LLAMA),
    "mistral": (lambda: t.MistralForCausalLM(t.MistralConfig(**LOCAL)), _text, _LLAMA),
    "t5": (
        lambda: t.T5ForConditionalGeneration(
            t.T5Config(vocab_size=WORDS, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False, decoder_start_token_id=0)
        ),
        lambda: _text() | {"decoder_input_ids": _ids(6)},
        by_heads(["*.q.weight", "*.k.weight", "*.v.weight"], ["*.o.weight"], ["*.wi.weight"], ["*.wo.weight"])
        | {"*.relative_attention_bias.weight": "features over tp"},
    ),
    "vit": (
        lambda: t.ViTForImageClassification(
            t.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8)
        ),
        lambda: _picture(32),
        by_heads(["*.q_proj.*", "*.k_proj.*", "*.v_proj.*"], ["*.o_proj.weight"], [], []) | _MLP,
    ),
    "convnext": (
        lambda: t.ConvNextForImageClassification(t.ConvNextConfig(hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 1, 1])),
        lambda: _picture(64),
        by_heads([], [], ["*.pwconv1.*"], ["*.pwconv2.weight"]),
    ),
    "resnet": (
        lambda: t.ResNetForImageClassification(t.ResNetConfig(embedding_size=8, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic")),
        lambda: _picture(32),
        {"*classifier.1.*": "outputs over tp"},
    ),
    "segformer": (
        lambda: t.SegformerForSemanticSegmentation(
            t.SegformerConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16)
        ),
        lambda: _picture(64),
        _MLP,
    ),
    "whisper": (
        lambda: t.WhisperForConditionalGeneration(
            t.WhisperConfig(
                vocab_size=WORDS,
                d_model=32,
                encoder_layers=2,
                decoder_layers=2,
                encoder_attention_heads=4,
                decoder_attention_heads=4,
                encoder_ffn_dim=64,
                decoder_ffn_dim=64,
                num_mel_bins=8,
                max_source_positions=20,
                max_target_positions=16,
                use_cache=False,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=2,
                decoder_start_token_id=1,
                suppress_tokens=[],
                begin_suppress_tokens=[],
            )
        ),
        lambda: {"input_features": torch.randn(BATCH, 8, 40), "decoder_input_ids": _ids(6)},
        by_heads(["*.q_proj.*", "*.k_proj.*", "*.v_proj.*"], ["*.out_proj.weight"], [], []) | _MLP,
    ),
}


def made(name):
    """A model of a family in float64, its arguments, and cuts."""
    torch.manual_seed(0)
    make, arguments, cuts = FAMILIES[name]
    model = make().double()
    return model, {key: x.double() if x.is_floating_point() else x for key, x in arguments().items()}, cuts
