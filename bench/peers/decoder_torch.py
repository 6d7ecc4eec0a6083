"""A small decoder in PyTorch, to be measured beside ours: the same model, data, batches' size and optimizer, the same time.

    adjoin tokenize --data train.csv.gz --vocab bytes --out tokens
    python bench/peers/decoder_torch.py --tokens tokens --seconds 480 --seed 0

The model is adjoin's gpt-small: 4 blocks of 256 features and 8 heads, context 256, rotary positions, pre-norm, GELU,
dropout 0.1, no biases but those of the norms, output weights tied to the embedding. Documents share sequences and do not
see each other. AdamW (1e-3, 0.1 of matrices), gradients clipped at 1, the rate rises over the first 100 steps and then
stays. Prints steps, and perplexity and bits per byte of the test part. What the numbers are for stands in docs/results.md.
"""
import argparse
import json
import math
import struct
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

LAYERS, HIDDEN, HEADS, CONTEXT, BATCH, DROPOUT = 4, 256, 8, 256, 16, 0.1


def read_tokens(path):
    """All ids of a token file, whose format docs/data.md describes, and the id that ends a document."""
    with open(path, "rb") as file:
        magic, version, id_bytes, count = struct.unpack("<8sqqq", file.read(32))
    assert magic == b"adjtoken" and version == 1, path
    return np.memmap(path, np.uint16 if id_bytes == 2 else np.uint32, "r", 64, count)


class Tokens:
    def __init__(self, path, end):
        self.ids, self.end = read_tokens(path), end
        self.size = (len(self.ids) - 1 + CONTEXT - 1) // CONTEXT

    def batch(self, sequences):
        """Ids, targets (-100 where nothing follows) and which positions see which; short sequences are padded by ends."""
        rows = np.full((len(sequences), CONTEXT + 1), self.end, np.int64)
        for row, sequence in zip(rows, sequences):
            tokens = self.ids[sequence * CONTEXT : (sequence + 1) * CONTEXT + 1]
            row[: len(tokens)] = tokens
        rows = torch.from_numpy(rows)
        ids, targets = rows[:, :-1], rows[:, 1:].clone()
        ends = ids == self.end
        targets[ends] = -100
        document = ends.cumsum(1) - ends.long()  # an end belongs to the document before it
        sees = (document[:, :, None] == document[:, None, :]).tril()
        return ids, targets, sees[:, None]


def turned(x, cosine, sine):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cosine - b * sine, a * sine + b * cosine), -1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False), nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN, bias=False), nn.Linear(4 * HIDDEN, HIDDEN, bias=False)

    def attention(self, x, sees, angles):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(turned(q, *angles), turned(k, *angles), v, attn_mask=sees)
        return self.out(y.transpose(1, 2).flatten(2))

    def forward(self, x, sees, angles):
        x = x + F.dropout(self.attention(self.norm1(x), sees, angles), DROPOUT, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), DROPOUT, self.training)


class Decoder(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.embedding = nn.Embedding(words, HIDDEN)
        nn.init.normal_(self.embedding.weight, 0, 0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(HIDDEN)
        half = HIDDEN // HEADS // 2
        angle = torch.arange(CONTEXT)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        self.angles = angle.cos(), angle.sin()

    def forward(self, ids, targets, sees):
        """The sum of the targets' negative log-likelihoods, in nats."""
        x = F.dropout(self.embedding(ids), DROPOUT, self.training)
        for block in self.blocks:
            x = block(x, sees, self.angles)
        scores = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(scores.flatten(0, 1).float(), targets.flatten(), ignore_index=-100, reduction="sum")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tokens", required=True, help="a folder that adjoin tokenize --vocab bytes wrote")
    p.add_argument("--seconds", type=float, default=480)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--bf16", action="store_true")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    end = 256  # behind the 256 bytes
    train, test = Tokens(a.tokens + "/train.tokens", end), Tokens(a.tokens + "/test.tokens", end)
    model = Decoder(end + 1)
    matrices = [w for w in model.parameters() if w.dim() > 1]
    others = [w for w in model.parameters() if w.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=1e-3, fused=True)
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 100))
    cast = torch.autocast("cpu", torch.bfloat16, enabled=a.bf16)

    began, steps, order = time.monotonic(), 0, []
    while time.monotonic() - began < a.seconds:
        if len(order) < BATCH:
            order = torch.randperm(train.size).tolist()
        ids, targets, sees = train.batch([order.pop() for _ in range(BATCH)])
        with cast:
            nats = model(ids, targets, sees)
        (nats / (targets != -100).sum()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        rate.step()
        steps += 1
    seconds = time.monotonic() - began

    model.eval()
    nats = count = size = 0
    with torch.no_grad(), cast:
        for first in range(0, test.size, BATCH):
            ids, targets, sees = test.batch(range(first, min(first + BATCH, test.size)))
            nats += model(ids, targets, sees).double().item()
            count += (targets != -100).sum().item()
            size += ((targets != -100) & (targets != end)).sum().item()
    print(json.dumps({"peer": "torch", "seed": a.seed, "threads": a.threads, "bf16": a.bf16, "steps": steps,
                      "step_s": round(seconds / steps, 4), "perplexity": round(math.exp(nats / count), 4),
                      "bits_per_byte": round(nats / math.log(2) / size, 4)}), flush=True)


if __name__ == "__main__":
    main()
