"""The small models that hugging_face_oracle.py writes."""

import dataclasses
import json
from collections.abc import Callable

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import ByteLevelBPETokenizer


@dataclasses.dataclass
class Case:
    name: str
    config: dict
    saved_as: str  # the class of transformers that saves the model
    classes: list[str] | None = None  # names for the classes of a classifier that is not in the file
    dtype: torch.dtype = torch.float32  # of the saved weights
    rewrite: Callable = lambda folder: None  # changes the saved folder
    like: str = ""  # the case that has the same weights and inputs
    max_shard_size: str = "1GB"

    @property
    def family(self):
        return self.config["model_type"]


BERT = {"model_type": "bert", "vocab_size": 83, "hidden_size": 36, "num_hidden_layers": 2, "num_attention_heads": 3,
        "intermediate_size": 50, "max_position_embeddings": 40, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
GPT2 = {"model_type": "gpt2", "vocab_size": 71, "n_positions": 90, "n_embd": 32, "n_layer": 2, "n_head": 4, "resid_pdrop": 0.0,
        "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 70, "eos_token_id": 70}
LLAMA = {"model_type": "llama", "vocab_size": 79, "hidden_size": 48, "intermediate_size": 70, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
         "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
LINEAR = {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.5}}
LLAMA3 = {"rope_parameters": {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
                              "high_freq_factor": 4.0, "original_max_position_embeddings": 32}}
MISTRAL = LLAMA | {"model_type": "mistral", "vocab_size": 61, "hidden_size": 40, "intermediate_size": 66, "head_dim": 14,
                   "num_key_value_heads": 1, "sliding_window": None}
QWEN2 = LLAMA | {"model_type": "qwen2", "vocab_size": 97, "hidden_size": 24, "intermediate_size": 37, "num_hidden_layers": 3,
                 "num_attention_heads": 3, "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
                 "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}}


def hub_bert(folder):
    """Gives a BertForPreTraining the names and the config.json of google-bert/bert-base-uncased on the hub."""
    change_weights(folder, lambda weights: {old_spelling(name): weight for name, weight in weights.items()}
                   | {"bert.embeddings.position_ids": torch.arange(BERT["max_position_embeddings"])[None]})
    change_config(folder, lambda config: without_newer(config) | {
        "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": False,
        "hidden_dropout_prob": 0.1, "position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0"})


def hub_gpt2(folder):
    """Gives a GPT2Model the buffers and the config.json of openai-community/gpt2 on the hub."""
    change_weights(folder, lambda weights: weights
                   | {f"h.{layer}.attn.bias": torch.ones(1, 1, 90, 90).tril() for layer in range(GPT2["n_layer"])}
                   | {f"h.{layer}.attn.masked_bias": torch.tensor(-1e4) for layer in range(GPT2["n_layer"])})
    change_config(folder, lambda config: without_newer(config) | {
        "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "embd_pdrop": 0.1, "n_ctx": 90, "resid_pdrop": 0.1,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}})


def without_newer(config):
    newer = {"add_cross_attention", "dtype", "is_decoder", "scale_attn_weights", "tie_word_embeddings", "transformers_version"}
    return {key: value for key, value in config.items() if value is not None and key not in newer}


def old_spelling(name):
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


def version_4(folder):
    """Gives config.json the keys of transformers 4."""
    def older(config):
        rope = config.pop("rope_parameters")
        config |= {"rope_theta": rope.pop("rope_theta"), "torch_dtype": config.pop("dtype"), "transformers_version": "4.46.3"}
        if rope["rope_type"] == "linear":
            rope["type"] = rope.pop("rope_type")  # its name before 4.43
        config["rope_scaling"] = None if rope.get("rope_type") == "default" else rope
        if config["model_type"] == "qwen2":
            del config["layer_types"], config["rope_scaling"]
            config |= {"sliding_window": 4, "use_sliding_window": False}  # a window that is not in use
        return config

    change_config(folder, older)


FILMS = ["a wonderful film with a story that moves and an ending that stays", "dull and far too long, with a plot that goes nowhere",
         "the actors are great, and the music is better still", "not a good film: the jokes are old and the story is thin"]


def with_words(folder):
    """Gives a folder a WordPiece tokenizer of fewer pieces than the embedding has rows."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [piece for letter in "abcdefghijklmnopqrstuvwxyz" for piece in (letter, "##" + letter)]
    words = ["film", "story", "good", "great", "dull", "long", "the", "and", "##ing", "##ed", "."]
    vocabulary = {piece: number for number, piece in enumerate(special + letters + words)}
    transformers.BertTokenizer(vocab=vocabulary, do_lower_case=True).save_pretrained(folder)


def with_byte_pairs(folder):
    """Gives a folder a byte-level BPE tokenizer of fewer pieces than the embedding has rows."""
    trained = ByteLevelBPETokenizer(add_prefix_space=False)
    trained.train_from_iterator(FILMS, vocab_size=290, special_tokens=["<|endoftext|>"], show_progress=False)
    end = "<|endoftext|>"
    transformers.PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, bos_token=end, eos_token=end,
                                         unk_token=end).save_pretrained(folder)


CASES = [
    Case("bert", BERT | {"id2label": {0: "neutral", 1: "angry", 2: "happy"}, "label2id": {"neutral": 0, "angry": 1, "happy": 2}},
         "BertForSequenceClassification"),
    Case("bert-gelu-new", BERT | {"hidden_act": "gelu_new", "layer_norm_eps": 1e-5, "type_vocab_size": 1},
         "BertForSequenceClassification"),
    Case("bert-hub", BERT, "BertForPreTraining", classes=["late", "early", "never"], rewrite=hub_bert),
    Case("bert-base", BERT, "BertModel", classes=["no", "yes"]),
    Case("bert-words", BERT | {"id2label": {0: "negative", 1: "positive"}, "label2id": {"negative": 0, "positive": 1}},
         "BertForSequenceClassification", rewrite=with_words),
    Case("gpt2", GPT2, "GPT2LMHeadModel"),
    Case("gpt2-bytes", GPT2 | {"vocab_size": 300, "bos_token_id": 0, "eos_token_id": 0}, "GPT2LMHeadModel",
         rewrite=with_byte_pairs),
    Case("gpt2-bare", GPT2, "GPT2Model"),
    Case("gpt2-untied", GPT2 | {"tie_word_embeddings": False}, "GPT2LMHeadModel"),
    Case("gpt2-gelu", GPT2 | {"activation_function": "gelu", "n_inner": 77}, "GPT2LMHeadModel"),
    Case("gpt2-hub", GPT2, "GPT2Model", rewrite=hub_gpt2),
    Case("gpt2-f16", GPT2, "GPT2LMHeadModel", dtype=torch.float16),
    Case("llama", LLAMA, "LlamaForCausalLM"),
    Case("llama-bias", LLAMA | {"attention_bias": True, "mlp_bias": True, "head_dim": 10, "tie_word_embeddings": True},
         "LlamaForCausalLM"),
    Case("llama-linear", LLAMA | LINEAR, "LlamaForCausalLM"),
    Case("llama-llama3", LLAMA | LLAMA3, "LlamaForCausalLM"),
    Case("llama-4", LLAMA | LLAMA3, "LlamaForCausalLM", rewrite=version_4, like="llama-llama3"),
    Case("llama-linear-4", LLAMA | LINEAR, "LlamaForCausalLM", rewrite=version_4, like="llama-linear"),
    Case("llama-bf16", LLAMA, "LlamaForCausalLM", dtype=torch.bfloat16),
    Case("mistral", MISTRAL, "MistralForCausalLM"),
    Case("qwen2", QWEN2, "Qwen2ForCausalLM"),
    Case("qwen2-4", QWEN2, "Qwen2ForCausalLM", rewrite=version_4, like="qwen2"),
    Case("qwen2-sharded", QWEN2, "Qwen2ForCausalLM", max_shard_size="10KB"),
]


def change_weights(folder, change):
    save_file(change(load_file(folder / "model.safetensors")), folder / "model.safetensors", {"format": "pt"})


def change_config(folder, change):
    path = folder / "config.json"
    path.write_text(json.dumps(change(json.loads(path.read_text())), indent=2) + "\n")
