"""PyTorch's DistributedDataParallel on adjoin's backend, which processes of one host share memory through.

torchrun --nproc-per-node 2 examples/python/ddp.py
"""

import adjoin  # noqa: F401  makes "adjoin" a backend of torch.distributed
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("adjoin")  # the one word that differs
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    x = torch.linspace(-3, 3, 128).unsqueeze(1)[rank :: dist.get_world_size()]
    for step in range(301):
        loss = nn.functional.mse_loss(model(x), x.sin())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss.detach(), dist.ReduceOp.AVG)
        if step % 100 == 0 and rank == 0:
            print(f"step {step:3}  loss {loss.item():.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
