"""A step of a network of transformers by PyTorch alone, to be measured beside build/release/bench/bench_programs.

usage: programs_torch.py make KIND FOLDER [HIDDEN LAYERS BATCH TOKENS]   KIND: bert, gpt2 or llama; writes net.pt2 and config.json
       programs_torch.py step KIND FOLDER BATCH TOKENS TURNS             prints the median of the processor's milliseconds a step

A step is forward, backward, clipping and AdamW, in float32 on one thread, without dropout unless config.json has some.
"""

import json
import os
import statistics
import sys
import time
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers as t

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python/adjoin"))
from program import export_program  # noqa: E402

WORDS, POSITIONS = 2000, 512


def config_of(kind, hidden, layers):
    heads = max(1, hidden // 64)
    if kind == "gpt2":
        rates = {key: 0.0 for key in ("resid_pdrop", "embd_pdrop", "attn_pdrop")}
        return t.GPT2Config(vocab_size=WORDS, n_embd=hidden, n_layer=layers, n_head=heads, n_positions=POSITIONS, use_cache=False, **rates)
    sizes = dict(vocab_size=WORDS, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden, max_position_embeddings=POSITIONS)
    if kind == "llama":
        return t.LlamaConfig(**sizes, use_cache=False)
    return t.BertConfig(**sizes, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def model_of(kind, config):
    torch.manual_seed(0)
    return {"bert": t.BertForSequenceClassification, "gpt2": t.GPT2LMHeadModel, "llama": t.LlamaForCausalLM}[kind](config).train()


def make(kind, folder, hidden=256, layers=4, batch=8, tokens=128):
    config = config_of(kind, hidden, layers)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    inputs = {"input_ids": torch.randint(5, WORDS - 1, (batch, tokens)), "attention_mask": torch.ones(batch, tokens, dtype=torch.long)}
    print(export_program(model_of(kind, config), inputs, folder / "net.pt2"))


def step(kind, folder, batch, tokens, turns):
    config = config_of(kind, 64, 1).from_dict(json.loads((folder / "config.json").read_text()))
    model = model_of(kind, config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids, mask = torch.randint(5, WORDS - 1, (batch, tokens)), torch.ones(batch, tokens, dtype=torch.long)
    labels = torch.arange(batch) % 2 if kind == "bert" else ids.roll(-1, 1)
    seconds = []
    for _ in range(turns + 3):
        begin = time.process_time()
        optimizer.zero_grad()
        scores = model(input_ids=ids, attention_mask=mask).logits
        torch.nn.functional.cross_entropy(scores.flatten(0, -2), labels.flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds.append(time.process_time() - begin)
    print(f"{1e3 * statistics.median(seconds[3:]):.2f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    action, kind, folder, *numbers = sys.argv[1:]
    {"make": make, "step": step}[action](kind, Path(folder), *map(int, numbers))
