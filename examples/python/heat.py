"""Heat on a plate that a grid of workers holds together, run backward: from the temperatures after 50 steps of time,
gradient descent finds out what they were at the beginning.

A step of time needs the neighbours' edges: one halo exchange, whose adjoint brings their gradients home.
"""

import torch

import adjoin
from example import nearly_square, run

ROWS, COLUMNS = 30, 26
CONDUCTIVITY = 0.2  # of a step; above 0.25 the explicit scheme is unstable
TIME_STEPS, DESCENTS = 50, 20
RATE = 1  # of descent


class Plate:
    """A plate on a grid of workers {y, x}, whose border is kept at 0 by zeros around it."""

    def __init__(self, grid):
        self.grid = grid
        self.layout = adjoin.Layout(grid, [ROWS, COLUMNS], {0: "y", 1: "x"})
        neighbours = adjoin.Window(kernel=3, before=1, after=1)
        self.with_edges = adjoin.HaloExchange(self.layout, [neighbours, neighbours], grid)

    def piece_of(self, whole):
        return adjoin.place(whole, self.layout, self.grid).local.clone()

    def after(self, steps, u):
        """This worker's piece after steps of time: each is u + c (up + down + left + right - 4 u)."""
        for _ in range(steps):
            edged = self.with_edges(u)
            moved = lambda y, x: edged[y : y + u.size(0), x : x + u.size(1)]  # noqa: E731
            # In this order, which is that of autograd's sums backward, the bits are those of the example in C++.
            own, right, left, down, up = 4 * u, moved(1, 2), moved(1, 0), moved(2, 1), moved(0, 1)
            u = u + CONDUCTIVITY * (up + down + left + right - own)
        return u


def misfit_of(plate, begin, measured):
    """The misfit of what comes of `begin`, and its gradient. Each worker sums its own piece and calls backward on that."""
    leaf = begin.detach().requires_grad_()
    misfit = (plate.after(TIME_STEPS, leaf) - measured).square().sum()
    misfit.backward()
    return misfit.item(), leaf.grad


def temperatures():
    """Two warm spots."""
    y = torch.linspace(0, 1, ROWS, dtype=torch.float64).unsqueeze(1)
    x = torch.linspace(0, 1, COLUMNS, dtype=torch.float64)

    def spot(at_y, at_x, width):
        return (-((y - at_y).square() + (x - at_x).square()) / width).exp()

    return spot(0.3, 0.35, 0.02) + spot(0.7, 0.6, 0.03)


def run_backward(world, options, say):
    rows, columns = nearly_square(world.size)
    plate = Plate(adjoin.Grid(world, {"y": rows, "x": columns}))
    alone = Plate(adjoin.Grid(world.subset([world.rank]), {"y": 1, "x": 1}))
    say(f"{ROWS} x {COLUMNS} temperatures on a grid of {plate.grid.shape}")
    truth = temperatures()
    mine = plate.piece_of(alone.after(TIME_STEPS, truth))

    begin = plate.piece_of(torch.zeros_like(truth))
    misfits = []
    for descent in range(DESCENTS + 1):
        local, gradient = misfit_of(plate, begin, mine)
        misfits.append(world.all_reduce(torch.tensor([local], dtype=torch.float64)).item())
        if descent % 5 == 0:
            say(f"descent {descent:2d}  misfit {misfits[-1]:.4f}")
        begin = begin - RATE * gradient
    return {"first_misfit": misfits[0], "last_misfit": misfits[-1]}


if __name__ == "__main__":
    run("Heat on a grid of workers, differentiated through 50 steps.", run_backward)
