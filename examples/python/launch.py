"""Two workers, threads or processes, add what they hold: python launch.py, or mpirun -n 2 python launch.py."""

import torch

import adjoin


def work(world):
    x = torch.full([3], world.rank + 1.0)
    world.all_reduce(x)  # in place, on all ranks

    grid = adjoin.Grid(world, {"y": world.size})
    layer = adjoin.nn.Linear(4, 2, grid=grid)
    adjoin.nn.initialize(layer, seed=1)
    rows = adjoin.place(torch.ones(6, 4), adjoin.Layout(grid, [6, 4], {0: "y"}), grid)  # each rank holds some
    layer(rows).local.sum().backward()
    adjoin.sum_gradients(layer)
    print(f"rank {world.rank} of {world.size}: {x.tolist()}, of 6 rows {len(rows.local)}, bias {layer.bias.grad.tolist()}\n", end="")


if __name__ == "__main__":
    adjoin.launch(work, ranks=2)
