import torch

import adjoin
from distdl.nn.module import Layer, Rooted


class DistributedBatchNorm(Layer):
    """Batch norm of P_x. Of the workers that have equal channels the first holds gamma and beta, [1, channels, 1, …]."""

    def __init__(self, P_x, num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True):
        super().__init__(P_x)
        if P_x.dim < 2:
            raise ValueError(f"expected a partition of at least 2 dims, got {P_x.dim}")
        grid = P_x.grid_shape
        for axis in range(P_x.dim):
            if axis != 1:
                grid = grid.among(str(axis), [0])
        channels = adjoin.Layout(grid, [num_features], {0: "1"})
        name = f"BatchNorm{max(P_x.dim - 2, 1)}d"
        self.hide(getattr(adjoin.nn, name)(num_features, eps=eps, momentum=momentum, affine=affine,
                                           track_running_stats=track_running_stats, weight=channels, **self.where()))
        adjoin.nn.initialize(self._hidden, 1)
        view = [1, -1] + [1] * (P_x.dim - 2)
        names = {"weight": "gamma", "bias": "beta"} if affine else {}
        self.rooted = {of: Rooted(self, own, channels, getattr(self._hidden, of), view) for of, own in names.items()}

    def train(self, mode=True):
        self._hidden.train(mode)
        return super().train(mode)

    def forward(self, x):
        parameters = {name: own() for name, own in self.rooted.items()}
        return self.given(torch.func.functional_call(self._hidden, parameters, (self.place(x),)).local)
