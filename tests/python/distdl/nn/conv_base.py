import torch

import adjoin
from distdl.nn.module import Layer, Rooted, drawn


def per_dim(size, dims):
    """One number for all dims, or one of each, as integers of Python."""
    return [int(n) for n in size] if hasattr(size, "__len__") else [int(size)] * dims


class Conv(Layer):
    """A convolution whose weight lies on P_w: dim 0 over axis "0", dim 1 over axis "1", if those are to cut it; along the
    other axes all workers use it, each for its part of space."""

    space = None
    cuts = {0: "0", 1: "1"}

    def __init__(self, P_x, P_y, P_w, in_channels, out_channels, kernel_size, stride=1, padding=0, padding_mode="zeros",
                 dilation=1, groups=1, bias=True, buffer_manager=None):
        super().__init__(P_x, P_y)
        kernel, *windows = (per_dim(size, self.space) for size in (kernel_size, stride, padding, dilation))
        shape = [int(out_channels), int(in_channels) // groups, *kernel]
        copied = {str(d): "copied" for d in range(P_w.dim) if str(d) not in self.cuts.values()}
        layer = getattr(adjoin.nn, f"Conv{self.space}d")(
            int(in_channels), int(out_channels), kernel, *windows, groups=groups, bias=bias, padding_mode=padding_mode,
            weight=adjoin.Layout(P_w.grid_shape, shape, self.cuts, copied), **self.where())
        self.stores_bias = False
        self.keep(drawn(layer))

    def keep(self, layer):
        """Parameters of this module's own, on the first worker along the axes on which the layer's are copied."""
        self.hide(layer)
        rank = self.root.world.rank
        self.rooted = [Rooted(self, name, layout, getattr(layer, name)) for name, layout in layer.pieces.items()]
        self.stores_bias = any(own.name == "bias" and own.is_here for own in self.rooted)

    def forward(self, x):
        parameters = {own.name: own() for own in self.rooted}
        return self.given(torch.func.functional_call(self._hidden, parameters, (self.place(x),)).local)
