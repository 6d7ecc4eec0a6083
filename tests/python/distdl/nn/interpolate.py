import torch
import torch.nn.functional as F

import adjoin
from distdl.nn.upsampling import of_dims


class Interpolate(torch.nn.Module):
    """Of a piece [x_start, x_stop) of a tensor, the piece [y_start, y_stop) of its interpolation; what is not in the piece
    counts as zero. Begins and ends and shapes are of all dims, batch and channels too."""

    def __init__(self, x_start, x_stop, x_shape, y_start, y_stop, y_shape, scale_factor=None, mode="nearest",
                 align_corners=False):
        super().__init__()
        dims = len(x_shape) - 2
        self.grid = adjoin.Grid(adjoin.Communicator(), [("all", 1)])
        self.whole = adjoin.Layout(self.grid, [int(n) for n in x_shape])
        sides = [(int(begin), int(n) - int(end)) for begin, end, n in zip(x_start, x_stop, x_shape)]
        self.pads = [size for both in reversed(sides) for size in both]
        self.piece = tuple(slice(int(begin), int(end)) for begin, end in zip(y_start, y_stop))
        size = [int(n) for n in y_shape[2:]] if scale_factor is None else None
        self.layer = adjoin.nn.Upsample(size=size, scale_factor=scale_factor, grid=self.grid,
                                        **of_dims(mode, align_corners, dims))

    def forward(self, x):
        return self.layer(adjoin.DistributedTensor(F.pad(x, self.pads), self.whole, self.grid)).local[self.piece]
