"""Training steps of three transformers in eager PyTorch on a device, to be measured beside those of `adjoin bench step`.

    python bench/peers/device_torch.py bert-base --device cuda --steps 10

Attention is F.scaled_dot_product_attention, weights are float32 and products bfloat16 (autocast), the optimizer fused AdamW with gradients
clipped at 1, without dropout; tokens are random. Prints a JSON object: the median seconds of a step, and the most memory in use.
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

SIZES = {  # as tools/gpu_check gives them to adjoin
    "bert-base": dict(words=30522, layers=12, hidden=768, heads=12, inner=3072, length=128, batch=32, causal=False),
    "gpt2": dict(words=50257, layers=12, hidden=768, heads=12, inner=3072, length=1024, batch=8, causal=True),
    "llama": dict(words=32000, layers=24, hidden=1024, heads=16, inner=2816, length=2048, batch=4, causal=True, gated=True),
}


def rotated(x, cosine, sine):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cosine - b * sine, a * sine + b * cosine), -1)


class Block(nn.Module):
    def __init__(self, hidden, heads, inner, causal, gated):
        super().__init__()
        self.heads, self.causal, self.gated = heads, causal, gated
        self.norms = nn.ModuleList((nn.RMSNorm if gated else nn.LayerNorm)(hidden) for _ in range(2))
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden, bias=not gated), nn.Linear(hidden, hidden, bias=not gated)
        self.up, self.down = nn.Linear(hidden, (1 + gated) * inner, bias=not gated), nn.Linear(inner, hidden, bias=not gated)

    def forward(self, x, angles):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if angles is not None:
            q, k = rotated(q, *angles), rotated(k, *angles)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).flatten(2))
        y = self.up(self.norms[1](x))
        if self.gated:
            gate, y = y.chunk(2, -1)
            return x + self.down(F.silu(gate) * y)
        return x + self.down(F.gelu(y))


class Net(nn.Module):
    def __init__(self, words, layers, hidden, heads, inner, length, causal, gated=False):
        super().__init__()
        self.embedding = nn.Embedding(words, hidden)
        self.positions = None if gated else nn.Embedding(length, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads, inner, causal, gated) for _ in range(layers))
        self.norm = (nn.RMSNorm if gated else nn.LayerNorm)(hidden)
        self.scores = None if causal else nn.Linear(hidden, 2)  # a classifier's, of the first token
        half = hidden // heads // 2
        angle = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        self.register_buffer("cosine", angle.cos())
        self.register_buffer("sine", angle.sin())

    def forward(self, ids, targets):
        x = self.embedding(ids) if self.positions is None else self.embedding(ids) + self.positions.weight
        for block in self.blocks:
            x = block(x, (self.cosine, self.sine) if self.positions is None else None)
        x = self.norm(x)
        scores = self.scores(x[:, 0]) if self.scores else F.linear(x, self.embedding.weight).flatten(0, 1)
        return F.cross_entropy(scores.float(), targets.flatten())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", choices=SIZES)
    p.add_argument("--device", default="cuda")
    p.add_argument("--steps", type=int, default=10)
    a = p.parse_args()
    sizes = dict(SIZES[a.model])
    batch, length = sizes.pop("batch"), sizes["length"]
    torch.manual_seed(0)
    model = Net(**sizes).to(a.device)
    decays = [[w for w in model.parameters() if (w.dim() > 1) == matrices] for matrices in (True, False)]
    optimizer = torch.optim.AdamW([{"params": decays[0], "weight_decay": 0.01}, {"params": decays[1], "weight_decay": 0.0}], lr=1e-4, fused=True)
    ids = torch.randint(sizes["words"], (batch, length), device=a.device)
    targets = ids if sizes["causal"] else ids[:, 0] % 2

    def step():
        began = time.monotonic()
        with torch.autocast(torch.device(a.device).type, torch.bfloat16):
            loss = model(ids, targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        if a.device.startswith("cuda"):
            torch.cuda.synchronize()
        return time.monotonic() - began

    for _ in range(3):
        step()
    seconds = statistics.median(step() for _ in range(a.steps))
    memory = torch.cuda.max_memory_allocated() if a.device.startswith("cuda") else 0
    print(json.dumps({"step_seconds": seconds, "peak_memory_bytes": memory}))


if __name__ == "__main__":
    main()
