"""Small models whose config.json is changed at random, for hugging_face_oracle.py."""

import dataclasses
import json
import random

import torch
import transformers
from safetensors.torch import save_file

from hugging_face_cases import CASES

# The cases of the families' names, and another rotary one.
BASES = [{key: value for key, value in case.config.items() if key not in ("id2label", "label2id")}
         for case in CASES if case.name in (case.family, "llama-llama3")]

# Keys that only transformers 4, another family or the common code of all models knows, besides those of the family's own class.
OTHER_KEYS = ["attention_bias", "attention_chunk_size", "attention_multiplier", "attn_logit_softcapping", "configuration_files",
              "decoder", "embedding_size", "encoder", "final_logit_softcapping", "generator", "gradient_checkpointing", "head_dim",
              "hidden_size", "is_causal", "kv_sharing_modes", "layer_types", "logit_scale", "max_position_embeddings",
              "max_window_layers", "mlp_bias", "n_ctx", "num_attention_heads", "num_hidden_layers", "num_kv_shared_layers",
              "num_labels", "original_max_position_embeddings", "partial_rotary_factor", "per_layer_config",
              "position_embedding_type", "pruned_heads", "qkv_bias", "quantization_config", "residual_multiplier", "rope_parameters",
              "rope_scaling", "rope_theta", "sliding_window", "text_config", "tie_encoder_decoder", "transformers_weights",
              "use_sliding_window"]
ROPES = [{"rope_type": "default"}, {"rope_type": "default", "rope_theta": 50.0}, {"type": "linear", "factor": 3.0},
         {"rope_type": "linear", "rope_theta": 300.0, "factor": 2}, {"rope_type": "dynamic", "factor": 2.0},
         {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}, {"rope_theta": 70.0}, {},
         {"rope_type": "yarn", "type": "yarn", "factor": 2.0, "original_max_position_embeddings": 16, "rope_theta": 100.0},
         {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8},
         {"rope_type": "linear", "type": "default", "factor": 2.0}, {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5},
         {"rope_type": "default", "factor": 4.0, "partial_rotary_factor": 0.5},
         {"full_attention": {"rope_type": "default"}, "sliding_attention": {"rope_type": "linear", "factor": 2.0}},
         {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 50.0}]
LAYERS = [["full_attention"] * 2, ["sliding_attention", "full_attention"], ["sliding_attention"] * 3, ["chunked_attention"] * 2]
VALUES = {"rope_scaling": ROPES, "rope_parameters": ROPES, "layer_types": LAYERS, "mlp_layer_types": [["dense", "sparse"]],
          "hidden_act": ["gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu", "silu", "swish"],
          "activation_function": ["gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu", "silu"],
          "dtype": ["float32", "bfloat16"], "torch_dtype": ["float32"], "sliding_window": [4, 8, 100], "rope_theta": [20.0, 500, 1e6],
          "position_embedding_type": ["absolute", "relative_key"], "pruned_heads": [{}, {"0": [1]}],
          "per_layer_config": [{}, {"1": {"rms_norm_eps": 0.3, "layer_norm_eps": 0.3, "hidden_act": "relu"}}],
          "quantization_config": [{"bits": 4}], "configuration_files": [["config.json"], ["config.4.0.0.json"]],
          "transformers_weights": ["model.safetensors", "other.safetensors"], "kv_sharing_modes": [["store", "reuse"]],
          "original_max_position_embeddings": [8, 16], "max_window_layers": [0, 1], "text_config": [{"hidden_size": 8}],
          "decoder": [{"hidden_size": 8}], "encoder": [{"hidden_size": 8}], "generator": [{"hidden_size": 8}],
          "problem_type": ["regression", "single_label_classification", "multi_label_classification"],
          "id2label": [{"0": "a", "1": "b", "2": "c"}, {"1": "b", "0": "a"}], "label2id": [{"a": 1, "b": 0}],
          "architectures": [["BertModel"], []], "attention_chunk_size": [4], "partial_rotary_factor": [0.5, 1.0]}
OF_TYPE = {bool: [True, False], int: [1, 2, 3, 4, 5, 6, 12, 16], float: [1e-5, 0.01, 0.3, 0.7, 2.5]}
TOKENS = 20  # tokens of the text that is computed


def keys_of(family):
    """All keys that could matter to a family."""
    kind = transformers.CONFIG_MAPPING[family]
    own = [field.name for field in dataclasses.fields(kind)] + list(kind.attribute_map)
    return [key for key in own if key not in ("transformers_version",)] + OTHER_KEYS


def drawn_config(random):
    """A config.json and the keys in which it differs from that of a usual model."""
    base = random.choice(BASES)
    config, changed = dict(base) | {"dtype": "float32"}, []
    usual = transformers.CONFIG_MAPPING[base["model_type"]]()
    keys = keys_of(base["model_type"])
    keys += [key for key in keys if key in VALUES] * 2
    for _ in range(random.choice([1, 1, 2, 3])):
        key = random.choice(keys)
        changed.append(key)
        if key in config and random.random() < 0.3:
            del config[key]
        elif random.random() < 0.05:
            config[key] = None
        else:
            kind = type(getattr(usual, key, None)) if random.random() < 0.9 else random.choice(list(OF_TYPE))
            config[key] = random.choice(VALUES.get(key) or OF_TYPE.get(kind) or random.choice(list(OF_TYPE.values())))
    return config, changed


def logits_of(model, ids):
    """The logits of one text: at once, and for a decoder also token by token, as `generate` has them."""
    found = [model(input_ids=ids[None]).logits.flatten(0, -2)]
    if model.config.model_type != "bert":
        cache = transformers.DynamicCache(config=model.config)
        found.append(torch.cat([model(input_ids=token[None, None], past_key_values=cache, use_cache=True).logits[0] for token in ids]))
    return found


def made_and_computed(config, folder, seed):
    """Makes a model of a config.json, or of the usual one, and computes logits with what transformers opens."""
    generator = torch.Generator().manual_seed(seed)
    family = config["model_type"]
    auto = transformers.AutoModelForSequenceClassification if family == "bert" else transformers.AutoModelForCausalLM
    (folder / "config.json").write_text(json.dumps(config))
    model = auto.from_config(transformers.AutoConfig.from_pretrained(folder))
    for name, weight in model.named_parameters():
        weight.data = 0.25 * torch.randn(weight.shape, generator=generator) + (weight.dim() == 1 and name.endswith(".weight"))
    model.float().save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config))
    model, report = auto.from_pretrained(folder, output_loading_info=True, attn_implementation="eager")
    if any(report.values()):
        raise ValueError(f"cannot be opened: {report}")
    ids = torch.randint(1, min(model.config.vocab_size, 50), (TOKENS,), generator=generator)
    with torch.no_grad():
        return ids, logits_of(model.double().eval(), ids)


def write_variation(folder, seed):
    """Writes a model whose config.json was changed, and what transformers computes with it, or why it does not.

    folder/model is as save_pretrained writes it; folder/expected.safetensors has the tensors ids, logits and, of a decoder,
    logits.cached, or none where transformers refuses the model.
    """
    config, changed = drawn_config(random.Random(seed))
    (folder / "model").mkdir(parents=True)
    tensors, error = {}, ""
    try:
        ids, logits = made_and_computed(config, folder / "model", seed)
        tensors = {"ids": ids} | dict(zip(["logits", "logits.cached"], logits))
    except Exception as refusal:  # of transformers, which raises all kinds
        error = f"{type(refusal).__name__}: {' '.join(str(refusal).split())[:300]}"
    save_file(tensors, folder / "expected.safetensors")
    (folder / "expected.json").write_text(json.dumps({"changed": changed, "config": config, "error": error}))
