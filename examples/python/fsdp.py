"""PyTorch's fully_shard (FSDP2) on adjoin's backend: each rank has a part of each layer's weights.

torchrun --nproc-per-node 2 examples/python/fsdp.py
"""

import adjoin  # noqa: F401  makes "adjoin" a backend of torch.distributed
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main():
    dist.init_process_group("adjoin")  # the one word that differs
    rank, size = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 1))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    x = torch.linspace(-3, 3, 128).unsqueeze(1)[rank::size]
    for step in range(301):
        loss = nn.functional.mse_loss(model(x), x.sin())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0 and rank == 0:
            print(f"step {step:3}  loss {loss.item():.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
