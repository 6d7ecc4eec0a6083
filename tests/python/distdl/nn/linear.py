import adjoin
from distdl.nn.module import Layer, drawn


class DistributedLinear(Layer):
    """x W^T + b, whose weight lies on P_w, outputs by inputs: `sublinear` is adjoin's layer."""

    def __init__(self, P_x, P_y, P_w, in_features, out_features, bias=True):
        super().__init__(P_x, P_y)
        sizes = [int(out_features), int(in_features)]
        weight = adjoin.Layout(P_w.grid_shape, sizes, {0: "0", 1: "1"})
        self.sublinear = drawn(adjoin.nn.Linear(sizes[1], sizes[0], bias=bias, weight=weight, **self.where()))

    def forward(self, x):
        return self.given(self.sublinear(self.place(x)).local)
