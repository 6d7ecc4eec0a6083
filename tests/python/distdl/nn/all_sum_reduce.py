import adjoin
from distdl.nn.module import Module


class AllSumReduce(Module):
    """Sums the pieces of P_x along some of its axes, for all who had one."""

    def __init__(self, P_x, axes_reduce):
        super().__init__(P_x)
        self.axes = [str(int(axis)) for axis in axes_reduce]
        self.grid = self.root.grid_of(P_x)

    def forward(self, x):
        return adjoin.all_sum_reduce(x, self.grid, self.axes) if self.P_x.active else x.clone()
