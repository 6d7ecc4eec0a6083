"""A two-layer network that workers hold together: each of 4 has a quarter of its hidden features."""

import torch
import torch.nn.functional as F

import adjoin


def learn_a_sine(world):
    grid = adjoin.Grid(world, {"tp": world.size})  # all workers see the same batch
    mlp = adjoin.nn.ColRow(1, 64, 1, grid=grid, axis="tp")
    adjoin.nn.initialize(mlp, seed=1)  # the same global weights for every number of workers
    optimizer = adjoin.Optimizer(mlp, "adamw", weight_decay=0.01)

    x = torch.linspace(-3, 3, 128).unsqueeze(1)
    y = x.sin()
    for step in range(301):
        loss = F.mse_loss(mlp(x, adjoin.Step(number=step, training=True)), y)
        loss.backward()
        optimizer.step(0.01)
        if step % 100 == 0 and world.rank == 0:
            print(f"step {step:3d}  loss {loss.item():.5f}")


if __name__ == "__main__":
    adjoin.launch(learn_a_sine, ranks=4)  # on 4 threads, or with mpirun -n 4 on 4 processes
