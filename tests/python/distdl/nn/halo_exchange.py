import itertools

import torch

import adjoin
from distdl.nn.module import Module


class _InPlace(torch.autograd.Function):
    """The exchange, and backward its adjoint, written over what is given."""

    @staticmethod
    def forward(ctx, x, layer):
        ctx.layer = layer
        ctx.mark_dirty(x)
        return x.copy_(layer.there(x[layer.inner].contiguous()))

    @staticmethod
    def backward(ctx, dy):
        home = ctx.layer.back(dy.contiguous())
        dy.zero_()[ctx.layer.inner] = home
        return dy, None


class HaloExchange(Module):
    """Fills the margins of each piece with what its neighbours have there; backward adds what came in the margins to theirs.

    halo_shape: [[left, right] of each dim], the margins that the pieces have been given.
    """

    def __init__(self, P_x, halo_shape, recv_buffer_shape, send_buffer_shape, buffer_manager=None):
        super().__init__(P_x)
        self.halo_shape = halo_shape

    def forward(self, x):
        if self.learns(x):
            self.prepare(x)
        return _InPlace.apply(x, self) if self.P_x.active else x.clone()

    def prepare(self, x):
        P_x, grid = self.P_x, self.P_x.grid_shape
        mine = [int(side) for sides in self.halo_shape for side in sides] if P_x.active else [0] * (2 * P_x.dim)
        margins = self.gathered(mine)
        shape, own, wide = [], [], []
        for d in range(P_x.dim):
            cells = [grid.cell_at([i if axis == d else 0 for axis in range(P_x.dim)]) for i in range(P_x.shape[d])]
            sides = [margins[P_x.ranks[cell]][2 * d:2 * d + 2] for cell in cells]
            sizes = [self.shapes[cell][d] - sum(side) for cell, side in zip(cells, sides)]
            starts = [0, *itertools.accumulate(sizes)]
            shape.append(starts.pop())
            parts = [[(start - left, start + size + right)] for start, size, (left, right) in zip(starts, sizes, sides)]
            own.append((adjoin.Split.at(starts, shape[d], d), [str(d)]))
            wide.append((adjoin.Split.covering(parts, shape[d], d), [str(d)]))
        source, target = adjoin.Layout(grid, shape, own), adjoin.Layout(grid, shape, wide)
        self.there = adjoin.Move(source, target, self.root.grid)
        self.back = adjoin.Move(target.dual(), source.dual(), self.root.grid)
        if P_x.active:
            self.inner = tuple(slice(int(left), n - int(right)) for (left, right), n in zip(self.halo_shape, x.shape))
