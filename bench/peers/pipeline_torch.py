"""A step of a text classifier over two processes by torch.distributed.pipelining, to be measured beside `adjoin bench step --pp 2`.

    OMP_NUM_THREADS=1 python bench/peers/pipeline_torch.py [--schedule Schedule1F1B] [--steps 10]

The model is adjoin's bert-base with 4 blocks of 256 features and 8 heads: 30,522 words, no positions, pre-norm, GELU, dropout
0.1, no biases but those of the norms, scores of the first token. Rank 0 has the embedding and two blocks, rank 1 two blocks and
the head. A batch is 16 samples of 256 tokens in 8 micro-batches, all of full length, so that nothing is masked. Messages go over
gloo; AdamW is fused, gradients are clipped at 1 over both ranks. Prints the median seconds of a step.
"""
import argparse
import json
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.distributed import pipelining

WORDS, LAYERS, HIDDEN, HEADS, LENGTH, DROPOUT, CLASSES = 30522, 4, 256, 8, 256, 0.1, 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False), nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN, bias=False), nn.Linear(4 * HIDDEN, HIDDEN, bias=False)

    def attend(self, x):
        samples, tokens, _ = x.shape
        q, k, v = self.qkv(x).view(samples, tokens, 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(samples, tokens, HIDDEN))

    def forward(self, x):
        x = x + F.dropout(self.attend(self.before_attention(x)), DROPOUT, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.before_mlp(x)))), DROPOUT, self.training)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.scores = nn.Linear(HIDDEN, HIDDEN, bias=False), nn.Linear(HIDDEN, CLASSES, bias=False)

    def forward(self, x):
        return self.scores(F.dropout(F.gelu(self.hidden(x[:, 0])), DROPOUT, self.training))


def stage_of(rank):
    blocks = [Block() for _ in range(LAYERS // 2)]
    return nn.Sequential(*([nn.Embedding(WORDS, HIDDEN)] if rank == 0 else []), *blocks, *([Head()] if rank == 1 else []))


def clip(parameters, longest=1.0):
    square = sum(p.grad.square().sum() for p in parameters)
    dist.all_reduce(square)
    scale = (longest / (square.sqrt() + 1e-6)).clamp(max=1)
    for p in parameters:
        p.grad.mul_(scale)


def work(rank, port, a):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    model = stage_of(rank)
    stage = pipelining.PipelineStage(model, rank, 2, torch.device("cpu"))
    schedule = getattr(pipelining, a.schedule)(stage, a.microbatches, loss_fn=F.cross_entropy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    parameters = list(model.parameters())
    ids, labels = torch.randint(WORDS, (a.batch, LENGTH)), torch.randint(CLASSES, (a.batch,))
    seconds = []
    for _ in range(a.warm_up + a.steps):
        dist.barrier()
        begin = time.perf_counter()
        if rank == 0:
            schedule.step(ids)
        else:
            losses = []
            schedule.step(target=labels, losses=losses)
        clip(parameters)
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()
        seconds.append(time.perf_counter() - begin)
    if rank == 0:
        print(json.dumps({"peer": "torch", "schedule": a.schedule, "microbatches": a.microbatches, "steps": a.steps,
                          "step_seconds": round(statistics.median(seconds[a.warm_up:]), 4)}), flush=True)
    dist.destroy_process_group()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--schedule", choices=("ScheduleGPipe", "Schedule1F1B"), default="Schedule1F1B")
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--microbatches", type=int, default=8)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warm-up", type=int, default=3)
    arguments = p.parse_args()
    mp.spawn(work, (free_port(), arguments), 2)
